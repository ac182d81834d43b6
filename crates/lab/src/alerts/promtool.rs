//! Evaluates which alerts fire over the scraped series, by Prometheus' own tool.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use super::{rules::Rules, scraped::ScrapedSeries};

/// Names the program.
const PROGRAM: &str = "KITH_TEST_PROMTOOL";
/// The rules' file name. It is in the same folder as the files that name it.
const RULES: &str = "alerts.yml";
/// The text before an unexpected result of an expression.
const GOT: &str = "got: ";

/// When each alert fired first, by its name and its subject, if it has a subject: `KithCallsShed reads`.
/// Times start at the first scrape, as the rules saw it.
pub(super) type FiredAlerts = BTreeMap<String, Duration>;

/// Evaluates which rules fire. The test file with this name and the rules stay in the folder.
///
/// # Errors
/// When the program is not there, or finds the file or the rules wrong.
pub(super) async fn fired(
    rules: &Rules,
    scraped: &ScrapedSeries,
    interval: Duration,
    folder: &Path,
    name: &str,
) -> Result<FiredAlerts> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(RULES), rules.text())?;
    let path: PathBuf = folder.join(format!("{name}.yml"));
    fs::write(&path, test_file(name, scraped, interval))?;
    let program = env::var_os(PROGRAM).filter(|program| !program.is_empty());
    let mut command = Command::new(program.unwrap_or_else(|| OsString::from("promtool")));
    let ran = command.args(["test", "rules"]).arg(&path).kill_on_drop(true).output().await;
    let ran = ran.with_context(|| format!("promtool does not start: {PROGRAM} names the program"))?;
    let output = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    answer(&output).with_context(|| format!("promtool test rules {}", path.display()))
}

/// Builds the file for `promtool test rules`. Its expectation never holds, so that the tool prints the real
/// result.
fn test_file(name: &str, scraped: &ScrapedSeries, interval: Duration) -> String {
    let interval = interval.as_secs();
    let lasts = interval * u64::try_from(scraped.scrapes()).unwrap_or(u64::MAX);
    // The time at which each began, and something that is always there.
    let began = format!("min_over_time(timestamp(ALERTS{{alertstate=\"firing\"}})[{lasts}s:{interval}s])");
    let asked = format!("min by (alertname, what) ({began}) or vector(0)");
    let mut text = format!("rule_files: [{RULES}]\nevaluation_interval: {interval}s\ntests:\n");
    text += &format!("  - name: {name}\n    interval: {interval}s\n    input_series:\n");
    for (series, values) in scraped.values() {
        let series = series.replace('\'', "''");
        text += &format!("      - {{ series: '{series}', values: '{values}' }}\n");
    }
    text += "    promql_expr_test:\n";
    text + &format!("      - {{ expr: '{asked}', eval_time: {lasts}s, exp_samples: [] }}\n")
}

/// Parses the value that the tool prints for the expression: `{alertname="KithNodeUntrusted"} 1.35E+02, {}
/// 0E+00`.
fn answer(output: &str) -> Result<FiredAlerts> {
    let Some(got) = output.lines().find_map(|line| line.trim_start().strip_prefix(GOT)) else {
        bail!("it does not say what it got: {output}");
    };
    let all = got.split('{').skip(1).map(|one| entry(one).with_context(|| format!("it says {one}")));
    let all: Vec<(String, Duration)> = all.collect::<Result<_>>()?;
    Ok(all.into_iter().filter(|(name, _)| !name.is_empty()).collect())
}

/// `alertname="KithCallsShed", what="reads"} 1.35E+02,`
fn entry(text: &str) -> Option<(String, Duration)> {
    let (labels, value) = text.split_once('}')?;
    let values: Vec<&str> = labels.split('"').skip(1).step_by(2).collect();
    let seconds = value.trim().trim_end_matches(',').parse().ok()?;
    Some((values.join(" "), Duration::try_from_secs_f64(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(15);

    /// A node with this trust, one scrape each.
    fn scraped(trust: &[Option<&str>]) -> ScrapedSeries {
        let mut scraped = ScrapedSeries::new(["kith_bus_trusted".to_owned()].into());
        for answer in trust {
            scraped.add([("kith-1:7601", *answer)].into_iter()).unwrap();
        }
        scraped
    }

    #[test]
    fn test_file_has_series_and_asks_for_alert_start() {
        let scraped = scraped(&[Some("kith_bus_trusted 1"), Some("kith_bus_trusted 0"), None]);
        let text = test_file("cut", &scraped, INTERVAL);
        for line in [
            "rule_files: [alerts.yml]",
            "    interval: 15s",
            "      - { series: 'kith_bus_trusted{job=\"kith\",instance=\"kith-1:7601\"}', values: '1 0 stale' }",
            "      - { series: 'up{job=\"kith\",instance=\"kith-1:7601\"}', values: '1x1 0' }",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
        }
        assert!(text.contains("[45s:15s]") && text.contains("eval_time: 45s"), "{text}");
    }

    #[test]
    fn what_fires_is_read_from_what_the_tool_says() {
        let output = "Unit Testing:  a.yml\n  FAILED:\n    expr: \"min\", time: 7m,\n        exp: nil\n        got: {} 0E+00, {alertname=\"KithCallsShed\", what=\"reads\"} 1.65E+02, {alertname=\"KithNoNodeServes\"} 7.5E+01\n";
        let fired = answer(output).unwrap();
        let found: Vec<_> = fired.iter().map(|(name, at)| (name.as_str(), at.as_secs())).collect();
        assert_eq!(found, [("KithCallsShed reads", 165), ("KithNoNodeServes", 75)]);
        assert!(answer("        got: {} 0E+00\n").unwrap().is_empty());
    }

    #[test]
    fn a_tool_that_does_not_answer_is_an_error() {
        for output in
            ["", "SUCCESS", "got: nil\ngroup \"kith-nodes\", rule 3: parse error", "got: {a=\"b\"} x"]
        {
            assert!(answer(output).is_err() || answer(output).unwrap().is_empty(), "{output}");
        }
        assert!(answer("SUCCESS").is_err() && answer("got: {a=\"b\"} x").is_err());
    }

    #[tokio::test]
    #[ignore = "needs promtool: run cargo xtask test"]
    async fn alert_fires_only_once_true_for_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let trust = [[Some("kith_bus_trusted 1"); 4], [Some("kith_bus_trusted 0"); 4]].concat();
        let (rules, scraped) = (Rules::published(), scraped(&[trust, vec![None; 4]].concat()));
        let first = fired(&rules, &scraped, INTERVAL, folder.path(), "cut").await.unwrap();
        // The node is untrusted from 60 s on, for 60 s until it does not answer at all: too short for this
        // rule.
        assert!(!first.contains_key("KithNodeUntrusted"), "{first:?}");
        let sooner =
            rules.with("kith_bus_trusted == 0\n        for: 1m", "kith_bus_trusted == 0\n        for: 45s");
        let fired_then = fired(&sooner, &scraped, INTERVAL, folder.path(), "cut").await.unwrap();
        assert_eq!(fired_then.get("KithNodeUntrusted"), Some(&Duration::from_secs(105)), "{fired_then:?}");
        let never = sooner.with("kith_bus_trusted == 0", "kith_bus_trusted == 2");
        let silent = fired(&never, &scraped, INTERVAL, folder.path(), "cut").await.unwrap();
        assert!(!silent.contains_key("KithNodeUntrusted"), "{silent:?}");
        let wrong = sooner.with("kith_bus_trusted == 0", "kith_bus_trusted ==");
        assert!(fired(&wrong, &scraped, INTERVAL, folder.path(), "cut").await.is_err());
    }
}
