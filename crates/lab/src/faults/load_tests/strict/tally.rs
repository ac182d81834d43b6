use std::collections::BTreeMap;

use crate::{
    checker::of_a_disturbance,
    faults::{Better, Figure, figure::float},
};

/// Number of stale decisions that are reported in full.
const TOLD_MAX: usize = 5;

/// What a decision was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decided {
    /// By what was acknowledged.
    New,
    /// By what was before.
    Old,
    /// By a write of unknown outcome that came after.
    Later,
}

/// The counts of outcomes.
#[derive(Debug, Default)]
pub(super) struct StrictTally {
    acknowledged: u64,
    /// Of unknown outcome, or refused.
    unacknowledged: u64,
    new: u64,
    old: u64,
    later: u64,
    /// Nothing was decided.
    failed: u64,
    /// Answers that show neither a decision nor an outage.
    strange: BTreeMap<String, u64>,
}

impl StrictTally {
    pub(super) fn acknowledge(&mut self) {
        self.acknowledged += 1;
    }

    /// A write was not acknowledged, with this code.
    pub(super) fn fail_write(&mut self, code: &str) {
        self.unacknowledged += 1;
        self.note(code);
    }

    /// Nothing was decided, with this code.
    pub(super) fn fail(&mut self, code: &str) {
        self.failed += 1;
        self.note(code);
    }

    /// Counts a decision. Its description is kept if it was stale.
    pub(super) fn decide(&mut self, decided: Decided, about: impl FnOnce() -> String) {
        match decided {
            Decided::New => self.new += 1,
            Decided::Later => self.later += 1,
            Decided::Old => {
                self.old += 1;
                if self.old <= TOLD_MAX as u64 {
                    eprintln!("an old decision: {}", about());
                }
            }
        }
    }

    pub(super) fn figures(&self, goal: u64) -> Vec<Figure> {
        let decisions = self.new + self.old + self.later;
        let share = |of: u64, all: u64| 100.0 * float(of) / float((of + all).max(1));
        let told = |name: &str, unit, figure, better| Figure::told(name, unit, figure, better);
        let mut figures = vec![
            Figure::at_least("writes acknowledged", "count", float(self.acknowledged), float(goal)),
            Figure::none("old decisions", self.old),
            told("decisions", "count", float(decisions), Better::Higher),
            told("decided by a later write", "count", float(self.later), Better::Lower),
            told("decisions that failed", "percent", share(self.failed, decisions), Better::Lower),
            told(
                "writes not acknowledged",
                "percent",
                share(self.unacknowledged, self.acknowledged),
                Better::Lower,
            ),
            Figure::none("other answers", self.strange.values().sum()),
        ];
        let strange = self.strange.iter();
        figures.extend(strange.map(|(code, times)| Figure::none(format!("answered with {code}"), *times)));
        figures
    }

    fn note(&mut self, code: &str) {
        if !of_a_disturbance(code) {
            *self.strange.entry(code.to_owned()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(tally: &StrictTally, name: &str) -> (Option<f64>, bool) {
        let figures = tally.figures(2);
        let found = figures.iter().find(|figure| figure.name == name).unwrap();
        (found.figure, found.holds)
    }

    fn of(decisions: &[Decided]) -> StrictTally {
        let mut tally = StrictTally::default();
        for decided in decisions {
            tally.acknowledge();
            tally.decide(*decided, String::new);
        }
        tally
    }

    #[test]
    fn old_decision_does_not_hold_and_failures_do() {
        let mut tally = of(&[Decided::New, Decided::Later]);
        tally.fail("UNAVAILABLE");
        tally.fail_write("DEADLINE_EXCEEDED");
        assert!(tally.figures(2).iter().all(|figure| figure.holds), "{:?}", tally.figures(2));
        assert_eq!(figure(&of(&[Decided::New, Decided::Old]), "old decisions"), (Some(1.0), false));
    }

    #[test]
    fn too_few_writes_or_unexpected_codes_fail() {
        let mut tally = of(&[Decided::New]);
        assert_eq!(figure(&tally, "writes acknowledged"), (Some(1.0), false));
        tally.fail("INTERNAL");
        assert_eq!(figure(&tally, "answered with INTERNAL"), (Some(1.0), false));
    }
}
