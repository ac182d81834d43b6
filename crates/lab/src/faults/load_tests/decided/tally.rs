use crate::faults::{Better, Figure, figure::float};

/// Number of violations that are reported in full.
const TOLD_MAX: usize = 5;

/// The counts of outcomes.
#[derive(Debug, Default)]
pub(super) struct DecisionTally {
    decided: u64,
    accepted: u64,
    left: u64,
    /// Answers of those who came too late, and of those who asked again.
    later: u64,
    wrong: [u64; 6],
    told: usize,
}

/// The kinds of violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionViolation {
    /// Two answers report different decisions.
    DecidedTwice,
    /// Nothing is stored, though it was answered.
    Lost,
    /// What was accepted has not come about.
    NoEffect,
    /// It came about again after the user had left.
    EffectAgain,
    /// A user is a member whose application was not accepted.
    Uncalled,
    /// A group is counted otherwise than listed, or two of its members have one ordinal.
    Miscounted,
}

impl DecisionViolation {
    const ALL: [(Self, &'static str); 6] = [
        (Self::DecidedTwice, "decided twice"),
        (Self::Lost, "decisions lost"),
        (Self::NoEffect, "effects missing"),
        (Self::EffectAgain, "effects that came again"),
        (Self::Uncalled, "effects of nothing"),
        (Self::Miscounted, "groups that are counted wrong"),
    ];
}

impl DecisionTally {
    pub(super) fn decide(&mut self, accepted: bool, left: bool) {
        self.decided += 1;
        self.accepted += u64::from(accepted);
        self.left += u64::from(left);
    }

    pub(super) fn later(&mut self) {
        self.later += 1;
    }

    /// Records a violation of the object that `about` names.
    pub(super) fn blame(&mut self, wrong: DecisionViolation, about: impl FnOnce() -> String) {
        self.wrong[wrong as usize] += 1;
        self.told += 1;
        if self.told <= TOLD_MAX {
            eprintln!("{wrong:?}: {}", about());
        }
    }

    pub(super) fn figures(&self, goal: u64) -> Vec<Figure> {
        let told = |name: &str, of: u64| Figure::told(name, "count", float(of), Better::Higher);
        let mut figures =
            vec![Figure::at_least("applications decided", "count", float(self.decided), float(goal))];
        figures.extend(
            DecisionViolation::ALL.map(|(wrong, name)| Figure::none(name, self.wrong[wrong as usize])),
        );
        figures.extend([
            told("accepted", self.accepted),
            told("left afterwards", self.left),
            told("later answers that agree", self.later),
        ]);
        figures
    }
}
