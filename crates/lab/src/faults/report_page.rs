//! The rows' results as one page: a plot for each, the tables, and each check.

use std::time::Duration;

use kith_lab_servers::plot::{Bound, Line, Plot, Shade, escaped, page, table};

use super::{
    figure::Figure,
    findings::Findings,
    report::{HEAD, JudgedRun, cells},
    rows::HEALTHY,
};
use crate::{
    checker::{CheckResult, FaultTime, OverTime},
    faults::Better,
};

const ABOUT: &str = "<p>Each plot shows the oldest cached read of each moment: for how long something newer had been \
    acknowledged when it began. A fault is on in the grey part; no read may be above the dashed lines.</p>\n";

/// A self-contained page.
pub(super) fn html(findings: &Findings, figures: &[Figure]) -> String {
    let mut body = format!("<p>{}</p>\n", if findings.holds() { "All holds." } else { "Not all holds." });
    body += &table("What was run", &HEAD, findings.judged().iter().map(cells));
    body += &not_run(findings);
    body += ABOUT;
    findings.judged().iter().for_each(|judged| body += &section(judged));
    body += "<h2>All figures</h2>\n";
    body +=
        &table("What report.json holds", &["figure", "is", "target", "holds"], figures.iter().map(figure));
    page("The fault laboratory of Kith", &body)
}

fn not_run(findings: &Findings) -> String {
    let rows = findings.not_run().iter().map(|row| [row.name.to_owned(), row.why.clone()]);
    if rows.len() == 0 { String::new() } else { table("Not run", &["row", "why"], rows) }
}

fn section(judged: &JudgedRun) -> String {
    let name = format!("{}: {}", judged.name(), judged.what());
    let report = judged.report();
    let mut section =
        format!("<h2>{}</h2>\n{}", escaped(&name), plot(&name, &report.staleness.over_time).svg());
    section += "<details><summary>Checks</summary>\n";
    section += &table("Checks", &["check", "judged", "violations", "holds"], report.checks.iter().map(check));
    section += "</details>\n";
    let wrong: String =
        report.checks.iter().flat_map(|checked| &checked.violations).map(|text| item(text)).collect();
    if wrong.is_empty() { section } else { section + "<ul>\n" + &wrong + "</ul>\n" }
}

fn item(text: &str) -> String {
    format!("<li>{}</li>\n", escaped(text))
}

fn check(checked: &CheckResult) -> [String; 4] {
    let (judged, violated) = (checked.judged.to_string(), checked.violated().to_string());
    [checked.name.to_owned(), judged, violated, holds(checked.holds())]
}

fn figure(figure: &Figure) -> [String; 4] {
    let sign = match figure.better {
        Better::Lower => "at most",
        Better::Higher => "at least",
    };
    let is = figure.figure.map_or_else(|| "not run".to_owned(), |is| number(is, figure.unit));
    let target = figure.target.map(|target| format!("{sign} {}", number(target, figure.unit)));
    let holds = if figure.figure.is_some() { holds(figure.holds) } else { "-".to_owned() };
    [figure.name.clone(), is, target.unwrap_or_else(|| "-".to_owned()), holds]
}

fn number(number: f64, unit: &str) -> String {
    match unit {
        "count" => format!("{number:.0}"),
        "ratio" => format!("{number:.3}"),
        _ => format!("{number:.1} {unit}"),
    }
}

fn holds(holds: bool) -> String {
    if holds { "yes" } else { "NO" }.to_owned()
}

fn plot<'a>(title: &'a str, over_time: &'a OverTime) -> Plot<'a> {
    let slot = seconds(over_time.slot);
    let values: Vec<f64> = over_time.worst.iter().map(|age| seconds(*age)).collect();
    let lasts = over_time.slot.saturating_mul(u64::try_from(values.len()).unwrap_or(u64::MAX));
    let since = |at: u64| seconds(at.saturating_sub(over_time.from));
    let bound = |time: &FaultTime| Bound {
        from: since(time.from),
        until: since(time.healed),
        most: seconds(time.bound),
    };
    let healthy = Bound { from: 0.0, until: f64::MAX, most: HEALTHY.as_secs_f64() };
    let shade =
        |time: &'a FaultTime| Shade { name: &time.name, from: since(time.from), until: since(time.until) };
    Plot {
        title,
        since: "seconds since the first cached read",
        seconds: seconds(lasts),
        lines: vec![Line { colour: 0, name: "oldest read", slot, values }],
        shades: over_time.faults.iter().map(shade).collect(),
        bounds: std::iter::once(healthy).chain(over_time.faults.iter().map(bound)).collect(),
    }
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{NotRun, figures::figures, fixtures::judged};

    fn page_of(findings: &Findings) -> String {
        html(findings, &figures(findings))
    }

    #[test]
    fn row_plot_shows_fault_bound_and_oldest_read() {
        let page = page_of(&Findings::of_rows(vec![judged("F10", 2_500)], Vec::new()));
        assert_eq!((page.matches("<svg").count(), page.matches("<polyline").count()), (1, 1));
        // The plot goes from the first read at 1.5 s to the last at 3.5 s. Both axes have ten steps: 0.5 s
        // and 0.5 s.
        assert!(page.contains("class=\"shade\" x=\"142.0\" y=\"20\" width=\"164.0\""), "{page}");
        assert!(
            page.contains("<title>F10</title>") && page.contains("<title>no older than 3 s</title>"),
            "{page}"
        );
        assert!(page.contains("388.0,135.0 \"><title>oldest read"), "{page}");
        assert!(page.contains("All holds.") && !page.contains(">NO<"), "{page}");
    }

    #[test]
    fn too_old_read_is_described() {
        let page = page_of(&Findings::of_rows(vec![judged("F10", 3_100)], Vec::new()));
        assert!(page.contains("Not all holds.") && page.contains("<td class=\"no\">NO</td>"), "{page}");
        assert!(page.contains("<li>user:1: client 1 read version 1 at 4101000000 ns"), "{page}");
    }

    #[test]
    fn skipped_row_is_shown_with_its_reason() {
        let failed = NotRun::failed("F30", &anyhow::anyhow!("mongod <does> not start"));
        let page = page_of(&Findings::of_rows(Vec::new(), vec![failed]));
        assert!(page.contains("<td>F30</td><td>mongod &lt;does&gt; not start</td>"), "{page}");
        assert!(page.contains("Not all holds."), "{page}");
    }
}
