//! Checks the rules and their cases with Prometheus' own tool.

use std::{
    env, fs,
    path::Path,
    process::{Command, Output},
};

use crate::deploy::files::{at, text};

/// Returns whether the tool succeeds, and all its output.
pub(crate) fn promtool(arguments: &[&str], file: &Path) -> (bool, String) {
    let program = env::var_os("KITH_TEST_PROMTOOL").expect("KITH_TEST_PROMTOOL names the promtool program");
    let Output { status, stdout, stderr } = Command::new(program).args(arguments).arg(file).output().unwrap();
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

fn assert_content(arguments: &[&str], path: &str) {
    let (content, output) = promtool(arguments, &at(path));
    assert!(content, "promtool {arguments:?} {path}:\n{output}");
}

#[test]
#[ignore = "needs promtool: run cargo xtask test"]
fn promtool_accepts_configuration_and_rules() {
    assert_content(&["check", "config"], "deploy/prometheus/prometheus.yml");
    assert_content(&["check", "rules"], "deploy/prometheus/alerts.yml");
}

#[test]
#[ignore = "needs promtool: run cargo xtask test"]
fn alerts_fire_and_are_silent_as_their_cases_say() {
    assert_content(&["test", "rules"], "deploy/prometheus/alerts_test.yml");
}

/// A rule that is broken, or never true, or true in a healthy hour, does not pass its case.
#[test]
#[ignore = "needs promtool: run cargo xtask test"]
fn rules_that_are_wrong_do_not_pass() {
    let rules = text("deploy/prometheus/alerts.yml");
    let cases = text("deploy/prometheus/alerts_test.yml");
    let (healthy, cut) = ("a healthy hour", "one of two nodes is cut from Redis");
    let killed = "one node is killed, one lacks its store, one waits for it since its start";
    let changes = [
        (cut, "kith_bus_trusted == 0", "kith_bus_trusted =="),
        (cut, "kith_bus_trusted == 0", "kith_bus_trusted == 2"),
        (healthy, "kith_bus_queue_keys > 0\n        for: 1m", "kith_bus_queue_keys > 0\n        for: 0m"),
        (healthy, "after=~\"10s|60s\"", "after=~\"1s|10s|60s\""),
        (killed, "answers and does not serve", "answers, and does not serve"),
    ];
    for (case, from, to) in changes {
        let folder = tempfile::tempdir().unwrap();
        assert!(rules.contains(from), "{from}");
        fs::write(folder.path().join("alerts.yml"), rules.replace(from, to)).unwrap();
        let file = folder.path().join("alerts_test.yml");
        fs::write(&file, only(&cases, case)).unwrap();
        let (content, output) = promtool(&["test", "rules"], &file);
        assert!(!content, "with {to} the case passes: {case}\n{output}");
    }
}

/// Returns the file with only one case.
fn only(cases: &str, name: &str) -> String {
    let mut parts = cases.split("  - name: ");
    let head = parts.next().unwrap();
    let case = parts.find(|part| part.lines().next() == Some(name)).expect(name);
    format!("{head}  - name: {case}")
}
