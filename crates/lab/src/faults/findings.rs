//! The results from all rows, and the rows that were not run.

use anyhow::Result;

use super::{figure::Figure, long, report::JudgedRun};

/// The rows that were run, and the rows that were not.
#[derive(Debug)]
pub struct Findings {
    judged: Vec<JudgedRun>,
    /// Figures from rows that are measured over time.
    measured: Vec<Figure>,
    not_run: Vec<NotRun>,
    /// Names the file.
    pub(super) name: &'static str,
    goal: Option<u64>,
}

/// A row that was not run.
#[derive(Clone, Debug)]
pub struct NotRun {
    /// The row's name.
    pub name: &'static str,
    /// The reason for this.
    pub why: String,
    /// Whether it failed to run.
    pub failed: bool,
}

impl NotRun {
    /// This row failed to run.
    #[must_use]
    pub fn failed(name: &'static str, error: &anyhow::Error) -> Self {
        Self { name, why: format!("{error:#}"), failed: true }
    }

    /// The row with this name was left out.
    #[must_use]
    pub fn left_out(name: &'static str) -> Self {
        let why = "needs a build with fail points (docs/internals/laboratory.md)".to_owned();
        Self { name, why, failed: false }
    }
}

impl Findings {
    /// The findings for rows in the table.
    #[must_use]
    pub const fn of_rows(judged: Vec<JudgedRun>, not_run: Vec<NotRun>) -> Self {
        Self { judged, measured: Vec::new(), not_run, name: "report", goal: None }
    }

    /// Adds a judged row, ordered by name.
    pub fn add_judged(&mut self, judged: JudgedRun) {
        let at = self.judged.partition_point(|earlier| earlier.name() <= judged.name());
        self.judged.insert(at, judged);
    }

    /// Adds figures that were measured over time.
    pub fn add_measured(&mut self, figures: Vec<Figure>) {
        self.measured.extend(figures);
    }

    /// Adds a row that was not run.
    pub fn add_not_run(&mut self, row: NotRun) {
        self.not_run.push(row);
    }

    /// The findings for a long run.
    #[must_use]
    pub fn of_long_run(ran: Result<JudgedRun>) -> Self {
        let (judged, not_run) = match ran {
            Ok(judged) => (vec![judged], Vec::new()),
            Err(error) => (Vec::new(), vec![NotRun::failed(long::NAME, &error)]),
        };
        Self { name: long::NAME, goal: Some(long::READS), ..Self::of_rows(judged, not_run) }
    }

    /// The rows that were run, in their order.
    #[must_use]
    pub fn judged(&self) -> &[JudgedRun] {
        &self.judged
    }

    /// The figures that were measured over time, in their order.
    #[must_use]
    pub fn measured(&self) -> &[Figure] {
        &self.measured
    }

    /// The rows that were not run, in their order.
    #[must_use]
    pub fn not_run(&self) -> &[NotRun] {
        &self.not_run
    }

    /// Number of cached reads to be checked. `None`: all that there are.
    #[must_use]
    pub const fn goal(&self) -> Option<u64> {
        self.goal
    }
}
