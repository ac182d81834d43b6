use std::collections::BTreeMap;

use crate::{
    checker::of_a_disturbance,
    faults::{Better, Figure, figure::float},
};

/// Number of violations that are printed in full.
const PRINTED_MAX: u64 = 5;

/// The counts of outcomes.
#[derive(Debug, Default)]
pub(super) struct RemovalTally {
    /// Sends of users who were not in.
    forbidden: u64,
    /// Reads of users who were not in.
    looks: u64,
    /// Calls that were not answered.
    failed: u64,
    wrong: [u64; 5],
    /// Codes that neither a removal nor a disturbance explains.
    strange: BTreeMap<String, u64>,
}

/// The kinds of violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovalViolation {
    /// A send that began after the removal was answered with a number.
    Acknowledged,
    /// A message whose send began after the removal is in the log.
    Stored,
    /// A removed user reads what was sent after its removal.
    ReadBeyond,
    /// A user who came back reads what was sent while it was not in.
    ReadOfAbsence,
    /// A member may not send.
    Refused,
}

impl RemovalViolation {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Acknowledged, "sends of removed users acknowledged"),
        (Self::Stored, "messages of removed users stored"),
        (Self::ReadBeyond, "reads beyond a removal"),
        (Self::ReadOfAbsence, "reads of an absence"),
        (Self::Refused, "members refused"),
    ];
}

impl RemovalTally {
    pub(super) const fn forbid(&mut self) {
        self.forbidden += 1;
    }

    pub(super) const fn look(&mut self) {
        self.looks += 1;
    }

    /// A call was not answered, with this code.
    pub(super) fn fail(&mut self, code: &str) {
        self.failed += 1;
        if !of_a_disturbance(code) {
            *self.strange.entry(code.to_owned()).or_default() += 1;
        }
    }

    /// Records a violation of the object that `about` names.
    pub(super) fn blame(&mut self, wrong: RemovalViolation, about: impl FnOnce() -> String) {
        self.wrong[wrong as usize] += 1;
        if self.wrong.iter().sum::<u64>() <= PRINTED_MAX {
            eprintln!("{wrong:?}: {}", about());
        }
    }

    pub(super) fn figures(&self, goal: u64, removed: u64) -> Vec<Figure> {
        let count = |name: &str, of: u64| Figure::told(name, "count", float(of), Better::Higher);
        let mut figures = vec![Figure::at_least("removals", "count", float(removed), float(goal))];
        figures.extend(
            RemovalViolation::ALL.map(|(wrong, name)| Figure::none(name, self.wrong[wrong as usize])),
        );
        let strange = self.strange.iter();
        figures.push(Figure::none("other answers", self.strange.values().sum()));
        figures.extend(strange.map(|(code, times)| Figure::none(format!("answered with {code}"), *times)));
        figures.extend([
            // Each removal is followed by two sends.
            Figure::at_least("sends of removed users", "count", float(self.forbidden), float(removed)),
            count("reads of removed users", self.looks),
            Figure::told("calls failed", "count", float(self.failed), Better::Lower),
        ]);
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(tally: &RemovalTally) -> bool {
        tally.figures(1, 1).iter().all(|figure| figure.holds)
    }

    fn sound() -> RemovalTally {
        let mut tally = RemovalTally::default();
        tally.forbid();
        tally.look();
        tally.fail("UNAVAILABLE");
        tally
    }

    #[test]
    fn anything_wrong_does_not_hold() {
        assert!(holds(&sound()));
        for (wrong, _) in RemovalViolation::ALL {
            let mut tally = sound();
            tally.blame(wrong, String::new);
            assert!(!holds(&tally), "{wrong:?}");
        }
    }

    #[test]
    fn too_few_removals_or_unexpected_codes_fail() {
        let mut tally = sound();
        tally.fail("INTERNAL");
        assert!(!holds(&tally));
        assert!(!sound().figures(2, 1).iter().all(|figure| figure.holds));
        assert!(!holds(&RemovalTally::default()), "no removed user has sent anything");
    }
}
