//! The rows' results, as a table.

use std::{fmt, path::Path, time::Duration};

use anyhow::Result;
use kith_lab_servers::table::aligned;
use tokio::task::spawn_blocking;

use super::{
    figure::{Figure, millis},
    measures::Promise,
    mutants,
    rows::{FAULTY, HEALS, HEALTHY, ROWS, Row},
    run::{Load, RunSummary, run},
    site::Plan,
};
use crate::{
    checker::{self, Bounds, CheckResult, FaultEffect},
    history::{self, Event},
};

/// The bounds in all rows, and for the clusters that lack a rule. A fault with another name has the effect
/// that most faults have.
#[must_use]
pub fn bounds() -> Bounds {
    let rows = ROWS.iter().chain(mutants::rows());
    let by_fault = rows.map(|row| (row.name.to_owned(), row.effect())).collect();
    Bounds { healthy: HEALTHY, faulty: FaultEffect { bound: FAULTY, heals: HEALS }, by_fault }
}

/// The judged subject: a row, or a long run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The bound for its reads, if all have the same bound.
    pub(super) bound: Option<Duration>,
    pub(super) promises: &'static [Promise],
}

/// The result from a row or a long run.
#[derive(Debug)]
pub struct JudgedRun {
    subject: Subject,
    summary: RunSummary,
    report: checker::Report,
    /// The promises, in their order, and further figures.
    figures: Vec<Figure>,
}

impl From<&Row> for Subject {
    fn from(row: &Row) -> Self {
        Self { name: row.name, what: row.what, bound: Some(row.bound), promises: row.promises }
    }
}

impl JudgedRun {
    /// Judges the history in a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn of(subject: Subject, summary: RunSummary, path: &Path) -> Result<Self> {
        Ok(Self::new(subject, summary, &history::read(path)?))
    }

    pub(super) fn new(subject: Subject, summary: RunSummary, events: &[Event]) -> Self {
        let promised = subject.promises.iter().map(|promise| promise.measured(subject.name, events));
        let figures = promised.chain(summary.figures.iter().cloned()).collect();
        Self { subject, summary, report: checker::check(events, &bounds()), figures }
    }

    /// The row's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.subject.name
    }

    /// The fault, in a few words.
    #[must_use]
    pub const fn what(&self) -> &'static str {
        self.subject.what
    }

    /// Largest age that a read near the fault may have. `None`: it depends on the fault.
    #[must_use]
    pub const fn bound(&self) -> Option<Duration> {
        self.subject.bound
    }

    /// Whether every check passes, and all further promises in the row hold.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.report.holds() && self.figures.iter().all(|figure| figure.holds)
    }

    /// Number of deaths, ends and replacements.
    pub(super) const fn deaths(&self) -> u64 {
        self.summary.deaths
    }

    /// The row's promises beyond the checks, in their order, and further figures.
    #[must_use]
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// How long the whole run took.
    pub(super) const fn seconds(&self) -> f64 {
        self.summary.seconds
    }

    /// The checks' findings, in full.
    #[must_use]
    pub const fn report(&self) -> &checker::Report {
        &self.report
    }

    /// The findings from the check with this number.
    pub(super) fn violations(&self, check: &str) -> u64 {
        let of = |checked: &&CheckResult| checked.name.split(' ').next() == Some(check);
        self.report.checks.iter().filter(of).map(CheckResult::violated).sum()
    }
}

/// Formats the checks' findings and the figures, one line each.
impl fmt::Display for JudgedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.report)?;
        self.figures.iter().try_for_each(|figure| writeln!(f, "{figure}"))
    }
}

/// Runs a row and judges its history, which stays in the folder.
///
/// # Errors
/// Like [`run`].
pub async fn run_and_judge(row: &Row, plan: &Plan, load: Load, folder: &Path) -> Result<JudgedRun> {
    let history = folder.join(format!("{}.jsonl", row.name));
    let summary = run(row, plan, load, &history).await?;
    let subject = row.into();
    // Another row may run at the same time.
    spawn_blocking(move || JudgedRun::of(subject, summary, &history)).await?
}

/// The columns in a table with rows.
const HEAD: [&str; 15] = [
    "row",
    "fault",
    "seconds",
    "starting",
    "calls",
    "reads",
    "deaths",
    "refused",
    "open",
    "stale p99, ms",
    "max",
    "bound",
    "lost",
    "diverged",
    "holds",
];

/// The rows as a Markdown table.
pub(super) fn table(judged: &[JudgedRun]) -> String {
    aligned(&HEAD.map(str::to_owned), judged.iter().map(cells))
}

/// A row in the table.
fn cells(judged: &JudgedRun) -> [String; 15] {
    let JudgedRun { subject: Subject { name, what, bound, .. }, summary, report, .. } = judged;
    let ages = &report.staleness.all;
    [
        (*name).to_owned(),
        (*what).to_owned(),
        format!("{:.1}", summary.seconds),
        format!("{:.1}", summary.starting),
        summary.calls.to_string(),
        ages.reads.to_string(),
        summary.deaths.to_string(),
        report.refused.to_string(),
        report.open.to_string(),
        format!("{:.1}", millis(ages.p99)),
        format!("{:.1}", millis(ages.max)),
        bound.map_or_else(|| "-".to_owned(), |bound| format!("{:.0}", bound.as_secs_f64() * 1e3)),
        judged.violations("C5").to_string(),
        judged.violations("C7").to_string(),
        if judged.holds() { "yes" } else { "NO" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::mutants::{CONTROLS, MUTANTS};

    #[test]
    fn each_row_is_judged_by_its_own_bound() {
        let Bounds { by_fault, .. } = bounds();
        let rows = || ROWS.iter().chain(mutants::rows());
        assert_eq!(by_fault.len(), ROWS.len() + CONTROLS.len() + MUTANTS.len());
        assert!(rows().all(|row| by_fault.get(row.name).is_some_and(|effect| effect.bound == row.bound)));
        assert!(!by_fault.contains_key("none"));
    }
}
