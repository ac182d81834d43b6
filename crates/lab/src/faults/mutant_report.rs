//! Runs clusters that lack a rule, and reports what the checker found in each.

use std::path::Path;

use anyhow::Result;
use kith_lab_servers::table::aligned;

use super::{
    figure::{self, Better, Figure, float},
    mutants::{CONTROLS, Control, LOAD, Mutant},
    report::{JudgedRun, run_and_judge},
    site::Plan,
};
use crate::checker::CheckResult;

/// The variable for test builds that lack rules, see `crates/cache/src/testing/rules.rs`, and for relations
/// `crates/store-cluster/src/cql/client/fault_injection.rs`.
const LACKED_RULES: &str = "KITH_MUTANT";
/// The variable for test builds that wait, see `crates/cache/src/testing/failpoints.rs`.
const FAIL_POINT: &str = "KITH_FAILPOINT";

/// The file with the figures.
const FILE: &str = "mutants.json";
const HEAD: [&str; 7] = ["mutant", "what", "lacks", "seconds", "to be noticed by", "noticed by", "caught"];

/// The results so far.
#[derive(Debug, Default)]
pub struct MutantReport {
    controls: Vec<JudgedRun>,
    tried: Vec<(Mutant, JudgedRun)>,
    /// Names, with reasons.
    failed: Vec<(&'static str, String)>,
}

impl Control {
    /// Runs it and judges its history, which stays in the folder.
    ///
    /// # Errors
    /// Like [`run`](super::run).
    pub async fn run(&self, plan: &Plan, folder: &Path) -> Result<JudgedRun> {
        run_and_judge(&self.row, &with_defects(plan, "", self.waits), LOAD, folder).await
    }
}

impl Mutant {
    /// Runs it and judges its history, which stays in the folder.
    ///
    /// # Errors
    /// Like [`run`](super::run).
    pub async fn run(&self, plan: &Plan, folder: &Path) -> Result<JudgedRun> {
        run_and_judge(&self.row, &with_defects(plan, self.rules, self.waits), self.load, folder).await
    }

    /// Whether any of its checks has noticed something.
    #[must_use]
    pub fn is_caught(&self, judged: &JudgedRun) -> bool {
        self.findings(judged) > 0
    }

    /// How many findings these checks have.
    fn findings(&self, judged: &JudgedRun) -> u64 {
        self.checks.iter().map(|check| judged.violations(check)).sum()
    }
}

/// The plan with a program that lacks these rules, and waits at this fail point.
fn with_defects(plan: &Plan, rules: &str, waits: &str) -> Plan {
    let mut plan = plan.clone();
    let variables =
        [(LACKED_RULES, rules), (FAIL_POINT, waits)].into_iter().filter(|(_, what)| !what.is_empty());
    plan.environment.extend(variables.map(|(name, what)| (name.to_owned(), what.to_owned())));
    plan
}

impl MutantReport {
    /// Adds a control's result, or why it failed to run.
    pub fn add_control(&mut self, control: &Control, ran: Result<JudgedRun>) {
        match ran {
            Ok(judged) => self.controls.push(judged),
            Err(error) => self.failed.push((control.name(), format!("{error:#}"))),
        }
    }

    /// Adds the result from a cluster that lacks a rule, or why it failed to run.
    pub fn add(&mut self, mutant: Mutant, ran: Result<JudgedRun>) {
        match ran {
            Ok(judged) => self.tried.push((mutant, judged)),
            Err(error) => self.failed.push((mutant.name(), format!("{error:#}"))),
        }
    }

    /// Whether controls were run and all passed. Otherwise other findings prove nothing.
    #[must_use]
    pub fn is_controlled(&self) -> bool {
        let failed = |control: &Control| self.failed.iter().any(|(name, _)| *name == control.name());
        let failed = CONTROLS.iter().any(failed);
        !failed && !self.controls.is_empty() && self.controls.iter().all(JudgedRun::holds)
    }

    /// Whether the controls hold, all could be run, and each was caught.
    #[must_use]
    pub fn holds(&self) -> bool {
        let caught = self.count() == self.tried.len() && !self.tried.is_empty();
        self.is_controlled() && self.failed.is_empty() && caught
    }

    /// A Markdown table, the mutants that were not run, and how many were caught.
    #[must_use]
    pub fn text(&self) -> String {
        let cells = self.tried.iter().map(|(mutant, judged)| cells(mutant, judged));
        let mut text = aligned(&HEAD.map(str::to_owned), cells);
        for judged in self.controls.iter().filter(|judged| !judged.holds()) {
            text += &format!("{} does not hold, so nothing is shown:\n{judged}\n", judged.name());
        }
        for (name, why) in &self.failed {
            text += &format!("{name} was not run: {why}\n");
        }
        text + &format!("caught {}/{}\n", self.count(), self.tried.len())
    }

    /// Writes the figures into the folder: `mutants.json`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        figure::write(&self.figures(), folder, FILE)
    }

    fn count(&self) -> usize {
        self.tried.iter().filter(|(mutant, judged)| mutant.is_caught(judged)).count()
    }

    /// The number of caught mutants, the results from each control and each cluster, then the mutants that
    /// were not run.
    fn figures(&self) -> Vec<Figure> {
        let number = |count: usize| float(u64::try_from(count).unwrap_or(u64::MAX));
        let tried = number(self.tried.len());
        let mut figures = vec![Figure::at_least("mutants caught", "count", number(self.count()), tried)];
        for judged in &self.controls {
            let none = |checked: &CheckResult| {
                Figure::none(format!("{} {}", judged.name(), checked.name), checked.violated())
            };
            figures.extend(judged.report().checks.iter().map(none));
        }
        for (mutant, judged) in &self.tried {
            let (name, found) = (mutant.name(), float(mutant.findings(judged)));
            figures.push(Figure::at_least(format!("{name} noticed"), "count", found, 1.0));
            figures.push(Figure::without_target(
                format!("{name} takes"),
                "s",
                judged.seconds(),
                Better::Lower,
            ));
        }
        let failed = self.failed.iter();
        figures
            .extend(failed.map(|(name, why)| Figure::not_run((*name).to_owned(), "count", 0.0, why.clone())));
        figures
    }
}

fn cells(mutant: &Mutant, judged: &JudgedRun) -> [String; 7] {
    [
        mutant.name().to_owned(),
        judged.what().to_owned(),
        if mutant.rules.is_empty() { "the store's own".to_owned() } else { mutant.rules.to_owned() },
        format!("{:.1}", judged.seconds()),
        mutant.checks.join(", "),
        findings(judged),
        if mutant.is_caught(judged) { "yes" } else { "NO" }.to_owned(),
    ]
}

/// Each check with findings, and their number.
fn findings(judged: &JudgedRun) -> String {
    let found = judged.report().checks.iter().filter(|checked| !checked.holds());
    let found = found.map(|checked| {
        format!("{} ({})", checked.name.split(' ').next().unwrap_or_default(), checked.violated())
    });
    let found: Vec<String> = found.collect();
    if found.is_empty() { "nothing".to_owned() } else { found.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::faults::{
        fixtures::judged,
        mutants::{LATE_LOADS, MUTANTS},
    };

    /// A report with one control and one cluster that lacks a rule. Each has a read with that age; their
    /// bound is three seconds.
    fn report_of(control_ms: u64, mutant_ms: u64) -> MutantReport {
        let mut report = MutantReport::default();
        report.add_control(&CONTROLS[0], Ok(judged("F10", control_ms)));
        report.add(MUTANTS[0], Ok(judged("F10", mutant_ms)));
        report
    }

    fn figure(report: &MutantReport, name: &str) -> (Option<f64>, bool) {
        let figures = report.figures();
        let found = figures.iter().find(|figure| figure.name == name).expect("such a figure");
        (found.figure, found.holds)
    }

    #[test]
    fn caught_mutant_holds_if_its_control_holds() {
        let report = report_of(0, 3_100);
        assert!(report.holds() && report.text().ends_with("caught 1/1\n"), "{}", report.text());
        assert!(report.text().contains("| C3 (1)"), "{}", report.text());
        assert_eq!(figure(&report, "mutants caught"), (Some(1.0), true));
        assert_eq!(figure(&report, "M01 noticed"), (Some(1.0), true));
    }

    #[test]
    fn one_that_is_not_caught_fails_the_run() {
        let report = report_of(0, 2_900);
        assert!(!report.holds() && report.text().ends_with("caught 0/1\n"), "{}", report.text());
        assert_eq!(figure(&report, "mutants caught"), (Some(0.0), false));
        assert_eq!(figure(&report, "M01 noticed"), (Some(0.0), false));
    }

    #[test]
    fn what_another_check_notices_is_not_caught() {
        let mut report = report_of(0, 3_100);
        report.add(Mutant { checks: &["C8"], ..MUTANTS[0] }, Ok(judged("F10", 3_100)));
        assert!(!report.holds() && report.text().ends_with("caught 1/2\n"), "{}", report.text());
    }

    #[test]
    fn a_control_that_does_not_hold_fails_the_run() {
        let report = report_of(3_100, 3_100);
        assert!(!report.is_controlled() && !report.holds());
        assert!(report.text().contains("nothing is shown"), "{}", report.text());
        assert_eq!(figure(&report, "F10 C3 bounded staleness"), (Some(1.0), false));
    }

    #[test]
    fn without_a_control_nothing_is_shown() {
        let mut report = MutantReport::default();
        report.add(MUTANTS[0], Ok(judged("F10", 3_100)));
        assert!(!report.is_controlled() && !report.holds());
        report.add_control(&CONTROLS[0], Ok(judged("F10", 0)));
        assert!(report.holds());
        report.add_control(&CONTROLS[1], Err(anyhow::anyhow!("no server")));
        assert!(!report.is_controlled() && !report.holds());
    }

    #[test]
    fn mutant_not_run_fails_all_and_is_in_file() {
        let mut report = report_of(0, 3_100);
        report.add(MUTANTS[1], Err(anyhow::anyhow!("no server")));
        assert!(report.is_controlled() && !report.holds());
        assert!(report.text().contains("M02 was not run: no server"), "{}", report.text());
        let folder = tempfile::tempdir().expect("a folder");
        report.write(folder.path()).expect("a report");
        let text = fs::read(folder.path().join(FILE)).expect("a file");
        let figures: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let figures = figures.as_array().expect("figures");
        let failed = figures.iter().find(|figure| figure["name"] == "M02").expect("it is there");
        assert!(failed["figure"].is_null() && failed["not_run"] == "no server", "{failed}");
    }

    #[test]
    fn nothing_at_all_is_not_enough() {
        let mut report = MutantReport::default();
        report.add_control(&CONTROLS[0], Ok(judged("F10", 0)));
        assert!(report.is_controlled() && !report.holds());
    }

    #[test]
    fn environment_holds_only_requested_defects() {
        let plan = Plan::new("kith".into(), 4, 1);
        let environment = |rules, waits| with_defects(&plan, rules, waits).environment;
        let pair = |name: &str, what: &str| (name.to_owned(), what.to_owned());
        assert_eq!(
            environment("published,feed_publishes", ""),
            [pair("KITH_MUTANT", "published,feed_publishes")]
        );
        assert_eq!(environment("", LATE_LOADS), [pair("KITH_FAILPOINT", LATE_LOADS)]);
        assert!(environment("", "").is_empty());
    }
}
