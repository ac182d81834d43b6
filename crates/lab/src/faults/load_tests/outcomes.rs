//! Counts violations, by kind, and failed calls, by code.

use std::collections::BTreeMap;

use crate::{checker::is_outage_code, faults::Figure};

/// How many violations are printed in full.
const PRINTED_MAX: u64 = 5;

/// The number of violations in each kind.
#[derive(Debug, Default)]
pub(super) struct Violations(BTreeMap<&'static str, u64>);

/// Calls that failed.
#[derive(Debug, Default)]
pub(super) struct FailedCalls {
    pub(super) count: u64,
    /// Codes that no disturbance explains.
    unexpected: BTreeMap<String, u64>,
}

impl Violations {
    /// Counts a violation, and prints the first violations.
    pub(super) fn add(&mut self, kind: &'static str, about: impl FnOnce() -> String) {
        *self.0.entry(kind).or_default() += 1;
        if self.0.values().sum::<u64>() <= PRINTED_MAX {
            eprintln!("{kind}: {}", about());
        }
    }

    /// One figure for each of these kinds.
    pub(super) fn figures<const KINDS: usize>(&self, kinds: [&'static str; KINDS]) -> [Figure; KINDS] {
        kinds.map(|kind| Figure::none(kind, self.0.get(kind).copied().unwrap_or_default()))
    }
}

impl FailedCalls {
    /// Counts a failed call with this code.
    pub(super) fn add(&mut self, code: &str) {
        self.count += 1;
        if !is_outage_code(code) {
            *self.unexpected.entry(code.to_owned()).or_default() += 1;
        }
    }

    /// The calls with codes that no disturbance explains, in total and by code.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![Figure::none("other answers", self.unexpected.values().sum())];
        let by_code = self.unexpected.iter();
        figures.extend(by_code.map(|(code, count)| Figure::none(format!("answered with {code}"), *count)));
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(figures: &[Figure]) -> bool {
        figures.iter().all(|figure| figure.holds)
    }

    #[test]
    fn one_violation_does_not_hold() {
        let mut violations = Violations::default();
        assert!(hold(&violations.figures(["lost", "twice"])));
        violations.add("twice", String::new);
        assert_eq!(violations.figures(["lost", "twice"]).map(|figure| figure.holds), [true, false]);
    }

    #[test]
    fn outage_holds_and_other_answers_do_not() {
        let mut failed = FailedCalls::default();
        failed.add("UNAVAILABLE");
        assert!(hold(&failed.figures()) && failed.count == 1);
        failed.add("INTERNAL");
        assert!(failed.figures().iter().all(|figure| !figure.holds), "{:?}", failed.figures());
    }
}
