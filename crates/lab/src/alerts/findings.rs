//! The results of all cases, and the cases that were not run.

use std::{path::Path, time::Duration};

use anyhow::Result;
use kith_lab_servers::table::aligned;

use super::{case_result::CaseResult, cases::Case};
use crate::faults::{
    NotRun,
    figure::{self, Figure},
};

/// The file with the figures.
const FILE: &str = "alerts.json";
const HEAD: [&str; 5] = ["case", "fault", "to fire", "fired, and how long after the fault", "holds"];

/// The results so far.
#[derive(Debug, Default)]
pub struct AlertReport {
    shown: Vec<CaseResult>,
    not_run: Vec<NotRun>,
}

impl AlertReport {
    /// A case was run, or could not be.
    pub fn add(&mut self, case: &Case, ran: Result<CaseResult>) {
        match ran {
            Ok(shown) => self.shown.push(shown),
            Err(error) => self.not_run.push(NotRun::failed(case.name, &error)),
        }
    }

    /// A case was left out, as it needs another build.
    pub fn leave_out(&mut self, case: &Case) {
        let why = "needs a build that can lack rules (docs/internals/laboratory.md)".to_owned();
        self.not_run.push(NotRun { name: case.name, why, failed: false });
    }

    /// Whether all that were run hold, and none could not be.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.shown.iter().all(CaseResult::holds) && !self.not_run.iter().any(|case| case.failed)
    }

    /// A report for people: a Markdown table, what is wrong, and what was not run.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = aligned(&HEAD.map(str::to_owned), self.shown.iter().map(cells));
        for shown in &self.shown {
            let name = shown.case().name;
            let wrong = [
                ("did not fire", shown.missing()),
                ("fired before the fault", shown.early()),
                ("fired unexpectedly", shown.unexpected()),
            ];
            for (what, alerts) in wrong {
                alerts.iter().for_each(|alert| text += &format!("{name}: {alert} {what}\n"));
            }
        }
        for case in &self.not_run {
            text += &format!("{} was not run: {}\n", case.name, case.why);
        }
        text
    }

    /// Writes the figures into the folder: `alerts.json`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut figures: Vec<Figure> = self.shown.iter().flat_map(CaseResult::figures).collect();
        let not_run = |case: &NotRun| {
            let name = format!("{} alerts that did not fire", case.name);
            Figure::not_run(name, "count", 0.0, case.why.clone())
        };
        figures.extend(self.not_run.iter().map(not_run));
        figure::write(&figures, folder, FILE)
    }
}

fn cells(shown: &CaseResult) -> [String; 5] {
    let case = shown.case();
    let fired = shown.fired().map(|(alert, after)| format!("{alert} {}", minutes(after)));
    let none_for_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    [
        case.name.to_owned(),
        case.what.to_owned(),
        none_for_none(case.fires.join(", ")),
        none_for_none(fired.collect::<Vec<_>>().join(", ")),
        if shown.holds() { "yes" } else { "NO" }.to_owned(),
    ]
}

/// Formats a time, such as `2m15s`.
fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}m{:02}s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::alerts::CASES;

    fn case(name: &str) -> &'static Case {
        CASES.iter().find(|case| case.name == name).expect("such a case")
    }

    fn report(fired: &[(&str, u64)]) -> AlertReport {
        let fired = fired.iter().map(|(alert, at)| ((*alert).to_owned(), Duration::from_secs(*at)));
        let mut report = AlertReport::default();
        let case = case("one-killed");
        report.add(case, Ok(CaseResult::new(*case, Duration::from_secs(300), fired.collect())));
        report
    }

    fn figures(report: &AlertReport) -> serde_json::Value {
        let folder = tempfile::tempdir().expect("a folder");
        report.write(folder.path()).expect("a report");
        serde_json::from_slice(&fs::read(folder.path().join(FILE)).expect("a file")).expect("JSON")
    }

    #[test]
    fn fired_alert_is_shown_with_its_time() {
        let report = report(&[("KithNodeNotServing", 435)]);
        assert!(report.holds());
        assert!(report.text().contains("| KithNodeNotServing 2m15s "), "{}", report.text());
        let figures = figures(&report);
        let after = figures.as_array().and_then(|figures| figures.last()).expect("a figure");
        assert_eq!(
            (after["name"].as_str(), after["figure"].as_f64()),
            (Some("one-killed KithNodeNotServing after"), Some(135.0))
        );
    }

    #[test]
    fn violations_are_shown_alert_by_alert() {
        let report = report(&[("KithStaleReads", 15)]);
        assert!(!report.holds());
        let text = report.text();
        for line in [
            "one-killed: KithNodeNotServing did not fire\n",
            "one-killed: KithStaleReads fired before the fault\n",
            "one-killed: KithStaleReads fired unexpectedly\n",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }

    #[test]
    fn skipped_case_passes_and_failed_run_fails_all() {
        let mut report = report(&[("KithNodeNotServing", 435)]);
        report.leave_out(case("unpublished"));
        assert!(report.holds() && report.text().contains("unpublished was not run: needs a build"));
        report.add(case("forged"), Err(anyhow::anyhow!("no server")));
        assert!(!report.holds() && report.text().contains("forged was not run: no server"));
        let figures = figures(&report);
        let last = figures.as_array().and_then(|figures| figures.last()).expect("a figure");
        assert!(last["figure"].is_null() && last["not_run"] == "no server", "{last}");
    }
}
