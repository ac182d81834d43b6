//! Counts what removed users did, and kinds of violations.

use super::Progress;
use crate::faults::{
    Better, Figure,
    figure::float,
    load_tests::outcomes::{FailedCalls, Violations},
};

/// A send that began after the removal was answered with a number.
pub(super) const ACKNOWLEDGED: &str = "sends of removed users acknowledged";
/// A message whose send began after the removal is in the log.
pub(super) const STORED: &str = "messages of removed users stored";
/// A removed user reads a message from after its removal.
pub(super) const READ_BEYOND: &str = "reads beyond a removal";
/// A user who came back reads a message that was sent while it was not a member.
pub(super) const READ_OF_ABSENCE: &str = "reads of an absence";
/// A member may not send.
pub(super) const REFUSED: &str = "members refused";

/// Counts the outcomes.
#[derive(Debug, Default)]
pub(super) struct RemovalTally {
    /// Sends by users who were not members.
    pub(super) forbidden: u64,
    /// Reads by users who were not members.
    pub(super) reads: u64,
    pub(super) failed: FailedCalls,
    pub(super) violations: Violations,
}

impl RemovalTally {
    pub(super) fn figures(&self, progress: &Progress) -> Vec<Figure> {
        let removed = progress.done();
        let mut figures = vec![
            Figure::at_least_count("removals", removed, progress.goal()),
            // Each removal is followed by two sends.
            Figure::at_least_count("sends of removed users", self.forbidden, removed),
            Figure::count("reads of removed users", self.reads),
            Figure::without_target("calls failed", "count", float(self.failed.count), Better::Lower),
        ];
        let kinds = [ACKNOWLEDGED, STORED, READ_BEYOND, READ_OF_ABSENCE, REFUSED];
        figures.extend(self.violations.figures(kinds));
        figures.extend(self.failed.figures());
        figures
    }
}
