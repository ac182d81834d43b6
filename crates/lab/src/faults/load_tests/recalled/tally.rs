//! Counts reads, and reads that showed removed contents.

use super::Progress;
use crate::{
    faults::{
        Better, Figure,
        figure::float,
        load_tests::outcomes::{FailedCalls, Violations},
    },
    history::LoggedMessage,
};

/// A read showed a message's previous content.
const SHOWN: &str = "reads of previous content";

/// Counts the outcomes.
#[derive(Debug, Default)]
pub(super) struct RecallTally {
    /// Reads that were answered.
    pub(super) reads: u64,
    /// Reads among them that were made at once, and had the changed message.
    pub(super) at_once: u64,
    pub(super) failed: FailedCalls,
    violations: Violations,
}

impl RecallTally {
    /// A read showed a message's previous content.
    pub(super) fn add_violation(&mut self, message: &LoggedMessage, read: impl FnOnce() -> String) {
        self.violations.add(SHOWN, || format!("{message:?} was changed before: {}", read()));
    }

    pub(super) fn figures(&self, progress: &Progress) -> Vec<Figure> {
        let goal = progress.goal();
        let mut figures = vec![
            Figure::at_least_count("changes", progress.done(), goal),
            Figure::at_least_count("reads of changed messages at once", self.at_once, goal),
            Figure::count("reads", self.reads),
            Figure::without_target("calls failed", "count", float(self.failed.count), Better::Lower),
        ];
        figures.extend(self.violations.figures([SHOWN]));
        figures.extend(self.failed.figures());
        figures
    }
}
