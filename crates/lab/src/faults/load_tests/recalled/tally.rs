use std::collections::BTreeMap;

use crate::{
    checker::of_a_disturbance,
    faults::{Better, Figure, figure::float},
    history::Logged,
};

/// Number of reads of removed content that are printed in full.
const PRINTED_MAX: u64 = 5;

/// The counts of outcomes.
#[derive(Debug, Default)]
pub(super) struct RecallTally {
    /// Reads that were answered.
    reads: u64,
    /// Those of them that were made at once, and had the changed message.
    at_once: u64,
    /// Reads that showed what was gone.
    shown: u64,
    /// Calls that were not answered.
    failed: u64,
    /// Codes that no disturbance explains.
    strange: BTreeMap<String, u64>,
}

impl RecallTally {
    pub(super) const fn read(&mut self) {
        self.reads += 1;
    }

    pub(super) const fn read_at_once(&mut self) {
        self.at_once += 1;
    }

    /// A call was not answered, with this code.
    pub(super) fn fail(&mut self, code: &str) {
        self.failed += 1;
        if !of_a_disturbance(code) {
            *self.strange.entry(code.to_owned()).or_default() += 1;
        }
    }

    /// A read showed the previous content of a message.
    pub(super) fn blame(&mut self, message: &Logged, read: impl FnOnce() -> String) {
        self.shown += 1;
        if self.shown <= PRINTED_MAX {
            eprintln!("{message:?} was changed before: {}", read());
        }
    }

    pub(super) fn figures(&self, goal: u64, changed: u64) -> Vec<Figure> {
        let strange = self.strange.iter();
        let mut figures = vec![
            Figure::at_least("changes", "count", float(changed), float(goal)),
            Figure::none("reads of what was before", self.shown),
            Figure::at_least("reads of changed messages at once", "count", float(self.at_once), float(goal)),
            Figure::none("other answers", self.strange.values().sum()),
        ];
        figures.extend(strange.map(|(code, times)| Figure::none(format!("answered with {code}"), *times)));
        figures.extend([
            Figure::told("reads", "count", float(self.reads), Better::Higher),
            Figure::told("calls failed", "count", float(self.failed), Better::Lower),
        ]);
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> RecallTally {
        let mut tally = RecallTally::default();
        tally.read();
        tally.read_at_once();
        tally.fail("UNAVAILABLE");
        tally
    }

    fn holds(tally: &RecallTally) -> bool {
        tally.figures(1, 1).iter().all(|figure| figure.holds)
    }

    #[test]
    fn one_read_of_what_was_before_does_not_hold() {
        assert!(holds(&sound()));
        let mut tally = sound();
        tally.blame(&Logged { seq: 1, value: Some(7), sender: 1, silent: false }, String::new);
        assert!(!holds(&tally));
    }

    #[test]
    fn too_few_changes_or_unexpected_codes_fail() {
        assert!(!sound().figures(1, 0).iter().all(|figure| figure.holds));
        assert!(!holds(&RecallTally::default()), "no changed message was read");
        let mut tally = sound();
        tally.fail("INTERNAL");
        assert!(!holds(&tally));
    }
}
