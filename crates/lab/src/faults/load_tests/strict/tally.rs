//! Counts writes and the decisions after them.

use super::Progress;
use crate::faults::{
    Better, Figure,
    figure::float,
    load_tests::outcomes::{FailedCalls, Violations},
};

/// Decisions by the previous value.
const PREVIOUS: &str = "decisions by the previous value";

/// The value by which a node decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsedValue {
    /// The acknowledged value.
    Current,
    /// The previous value.
    Stale,
    /// The value from a write with an unknown outcome that was applied later.
    Later,
}

/// Counts the outcomes.
#[derive(Debug, Default)]
pub(super) struct StrictTally {
    /// Writes that were refused, or whose outcome is unknown.
    unacknowledged: u64,
    decisions: u64,
    later: u64,
    /// Reads that failed.
    undecided: u64,
    failed: FailedCalls,
    violations: Violations,
}

impl StrictTally {
    /// Counts a write that was not acknowledged, with its code.
    pub(super) fn fail_write(&mut self, code: &str) {
        self.unacknowledged += 1;
        self.failed.add(code);
    }

    /// Counts a read that failed, with its code.
    pub(super) fn fail(&mut self, code: &str) {
        self.undecided += 1;
        self.failed.add(code);
    }

    /// Counts a decision, and describes it if it is stale.
    pub(super) fn decide(&mut self, decided: UsedValue, about: impl FnOnce() -> String) {
        self.decisions += 1;
        match decided {
            UsedValue::Current => {}
            UsedValue::Later => self.later += 1,
            UsedValue::Stale => self.violations.add(PREVIOUS, about),
        }
    }

    pub(super) fn figures(&self, progress: &Progress) -> Vec<Figure> {
        let acknowledged = progress.done();
        let percent = |name: &str, of: u64, others: u64| {
            Figure::without_target(
                name,
                "percent",
                100.0 * float(of) / float((of + others).max(1)),
                Better::Lower,
            )
        };
        let mut figures = vec![
            Figure::at_least_count("writes acknowledged", acknowledged, progress.goal()),
            Figure::count("decisions", self.decisions),
            Figure::without_target("decided by a later write", "count", float(self.later), Better::Lower),
            percent("decisions that failed", self.undecided, self.decisions),
            percent("writes not acknowledged", self.unacknowledged, acknowledged),
        ];
        figures.extend(self.violations.figures([PREVIOUS]));
        figures.extend(self.failed.figures());
        figures
    }
}
