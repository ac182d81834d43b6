//! Counts decisions and kinds of violations.

use crate::faults::{Figure, load_tests::outcomes::Violations};

/// Two answers report different decisions.
pub(super) const DECIDED_TWICE: &str = "decided twice";
/// A decision was answered and is not stored.
pub(super) const LOST: &str = "decisions lost";
/// An accepted application has no effect.
pub(super) const NO_EFFECT: &str = "effects missing";
/// The effect was applied again after the user had left.
pub(super) const EFFECT_AGAIN: &str = "effects applied again";
/// A user is a member without an accepted application.
pub(super) const NOT_ACCEPTED: &str = "effects without an acceptance";
/// A group's count differs from its list, or two members have the same ordinal.
pub(super) const MISCOUNTED: &str = "groups counted wrong";

/// Counts the outcomes.
#[derive(Debug, Default)]
pub(super) struct DecisionTally {
    pub(super) decided: u64,
    pub(super) accepted: u64,
    pub(super) left: u64,
    /// Answers to later decisions, and to repeated calls, that agree with the first answer.
    pub(super) later: u64,
    pub(super) violations: Violations,
}

impl DecisionTally {
    pub(super) fn figures(&self, goal: u64) -> Vec<Figure> {
        let kinds = [DECIDED_TWICE, LOST, NO_EFFECT, EFFECT_AGAIN, NOT_ACCEPTED, MISCOUNTED];
        let mut figures = vec![Figure::at_least_count("applications decided", self.decided, goal)];
        figures.extend(self.violations.figures(kinds));
        figures.extend([
            Figure::count("accepted", self.accepted),
            Figure::count("left afterwards", self.left),
            Figure::count("later answers that agree", self.later),
        ]);
        figures
    }
}
