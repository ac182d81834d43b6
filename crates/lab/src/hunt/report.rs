//! What rows showed, as a table for people.

use std::{path::Path, time::Duration};

use anyhow::Result;

use super::{
    rows::{Row, bounds},
    run::{Hunted, Load, run},
    site::Plan,
};
use crate::{
    checker::{self, Checked},
    history,
    table::aligned,
};

/// What one row showed, or a long run.
#[derive(Debug)]
pub struct Judged {
    name: &'static str,
    what: &'static str,
    bound: Option<Duration>,
    hunted: Hunted,
    report: checker::Report,
}

impl Judged {
    /// Judges the history of what has this name and is that. `bound`: of its reads, where there is one for all.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn of(
        [name, what]: [&'static str; 2],
        bound: Option<Duration>,
        hunted: Hunted,
        path: &Path,
    ) -> Result<Self> {
        Ok(Self::new([name, what], bound, hunted, checker::check(&history::read(path)?, &bounds())))
    }

    pub(super) const fn new(
        [name, what]: [&'static str; 2],
        bound: Option<Duration>,
        hunted: Hunted,
        report: checker::Report,
    ) -> Self {
        Self { name, what, bound, hunted, report }
    }

    /// The name of the row.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What is done to the cluster, in a few words.
    #[must_use]
    pub const fn what(&self) -> &'static str {
        self.what
    }

    /// How old a read may be near to the fault. `None`: it depends on the fault.
    #[must_use]
    pub const fn bound(&self) -> Option<Duration> {
        self.bound
    }

    /// Whether every check holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.report.holds()
    }

    /// What the checks found, in full.
    #[must_use]
    pub const fn report(&self) -> &checker::Report {
        &self.report
    }

    /// What the check of this number found wrong.
    pub(super) fn violations(&self, check: &str) -> u64 {
        let of = |checked: &&Checked| checked.name.split(' ').next() == Some(check);
        self.report.checks.iter().filter(of).map(Checked::violated).sum()
    }
}

/// Runs a row and judges what clients saw; its history stays in the folder.
///
/// # Errors
/// As [`run`].
pub async fn judged(row: &Row, plan: &Plan, load: Load, folder: &Path) -> Result<Judged> {
    let history = folder.join(format!("{}.jsonl", row.name));
    let hunted = run(row, plan, load, &history).await?;
    Judged::of([row.name, row.what], Some(row.bound), hunted, &history)
}

/// What a table of rows shows.
pub(super) const HEAD: [&str; 14] = [
    "row",
    "fault",
    "seconds",
    "starting",
    "calls",
    "reads",
    "refused",
    "open",
    "stale p99, ms",
    "max",
    "bound",
    "lost",
    "diverged",
    "holds",
];

/// The rows as a table of Markdown.
pub(super) fn table(judged: &[Judged]) -> String {
    aligned(&HEAD.map(str::to_owned), judged.iter().map(cells))
}

/// A row of the table.
pub(super) fn cells(judged: &Judged) -> [String; 14] {
    let Judged { name, what, bound, hunted, report } = judged;
    let ages = &report.staleness.all;
    [
        (*name).to_owned(),
        (*what).to_owned(),
        format!("{:.1}", hunted.seconds),
        format!("{:.1}", hunted.starting),
        hunted.calls.to_string(),
        ages.reads.to_string(),
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

/// Nanoseconds as milliseconds.
pub(super) fn millis(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e3
}
