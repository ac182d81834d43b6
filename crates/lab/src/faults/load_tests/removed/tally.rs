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

const VIOLATIONS: [&str; 5] = [ACKNOWLEDGED, STORED, READ_BEYOND, READ_OF_ABSENCE, REFUSED];

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
        figures.extend(self.violations.figures(VIOLATIONS));
        figures.extend(self.failed.figures());
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether all figures hold after one removal, if `goal` is the goal.
    fn holds_for(tally: &RemovalTally, goal: u64) -> bool {
        let progress = Progress::new("members are removed", goal);
        progress.add(1);
        tally.figures(&progress).iter().all(|figure| figure.holds)
    }

    fn sound() -> RemovalTally {
        let mut tally = RemovalTally { forbidden: 1, reads: 1, ..RemovalTally::default() };
        tally.failed.add("UNAVAILABLE");
        tally
    }

    #[test]
    fn anything_wrong_does_not_hold() {
        assert!(holds_for(&sound(), 1));
        for kind in VIOLATIONS {
            let mut tally = sound();
            tally.violations.add(kind, String::new);
            assert!(!holds_for(&tally, 1), "{kind}");
        }
    }

    #[test]
    fn too_few_removals_or_unexpected_codes_fail() {
        let mut tally = sound();
        tally.failed.add("INTERNAL");
        assert!(!holds_for(&tally, 1));
        assert!(!holds_for(&sound(), 2));
        assert!(!holds_for(&RemovalTally::default(), 1), "no removed user has sent anything");
    }
}
