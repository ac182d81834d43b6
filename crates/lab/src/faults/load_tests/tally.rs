//! Counts the answers to callers, and how soon they came.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use hdrhistogram::Histogram;
use tonic::Code;

use crate::faults::figure::float;

/// Longer times count as this: no call takes so long.
const LONGEST_MICROS: u64 = 60_000_000;

/// Answers by kind. Times start when a call was sent.
#[derive(Debug)]
pub(super) struct CallTally {
    /// The times of successful calls, in microseconds.
    done: Histogram<u64>,
    shed: Histogram<u64>,
    failed: BTreeMap<i32, u64>,
    /// How many successful answers came while calls were sent.
    pub(super) in_time: u64,
    /// Calls that were due and not sent, since too many were under way.
    pub(super) held_back: u64,
}

impl CallTally {
    /// Creates an empty tally.
    ///
    /// # Errors
    /// Never, in fact: three digits can be kept.
    pub(super) fn new() -> Result<Self> {
        let times = Histogram::new_with_max(LONGEST_MICROS, 3)?;
        Ok(Self { done: times.clone(), shed: times, failed: BTreeMap::new(), in_time: 0, held_back: 0 })
    }

    pub(super) fn count(&mut self, code: Code, took: Duration, in_time: bool) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        match code {
            Code::Ok => {
                self.done.saturating_record(micros);
                self.in_time += u64::from(in_time);
            }
            Code::ResourceExhausted => self.shed.saturating_record(micros),
            code => *self.failed.entry(i32::from(code)).or_default() += 1,
        }
    }

    pub(super) fn add(&mut self, other: &Self) -> Result<()> {
        self.done.add(&other.done)?;
        self.shed.add(&other.shed)?;
        for (code, count) in &other.failed {
            *self.failed.entry(*code).or_default() += count;
        }
        self.in_time += other.in_time;
        self.held_back += other.held_back;
        Ok(())
    }

    pub(super) fn done(&self) -> u64 {
        self.done.len()
    }

    pub(super) fn shed(&self) -> u64 {
        self.shed.len()
    }

    /// Answers that are neither a success nor a refusal for lack of room.
    pub(super) fn failed(&self) -> u64 {
        self.failed.values().sum()
    }

    /// The number of answered calls.
    pub(super) fn answered(&self) -> u64 {
        self.done() + self.shed() + self.failed()
    }

    /// The share of calls that were done; NaN without any.
    pub(super) fn success(&self) -> f64 {
        float(self.done()) / float(self.answered() + self.held_back)
    }

    /// The 99th percentile of successful calls in milliseconds; NaN without any.
    pub(super) fn done_p99(&self) -> f64 {
        p99(&self.done)
    }

    /// The 99th percentile of shed calls in milliseconds; NaN without any.
    pub(super) fn shed_p99(&self) -> f64 {
        p99(&self.shed)
    }
}

fn p99(times: &Histogram<u64>) -> f64 {
    if times.is_empty() { f64::NAN } else { float(times.value_at_quantile(0.99)) / 1e3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_kind_and_merged() {
        let mut one = CallTally::new().unwrap();
        one.count(Code::Ok, Duration::from_millis(8), true);
        one.count(Code::ResourceExhausted, Duration::from_millis(1), true);
        let mut two = CallTally::new().unwrap();
        two.count(Code::Ok, Duration::from_millis(4), false);
        two.count(Code::Internal, Duration::from_millis(2), true);
        two.add(&one).unwrap();
        assert_eq!((two.done(), two.shed(), two.failed(), two.in_time), (2, 1, 1, 1));
        assert!((two.success() - 0.5).abs() < 1e-9 && (two.done_p99() - 8.0).abs() < 0.1);
    }

    #[test]
    fn what_was_not_seen_has_no_figure() {
        let none = CallTally::new().unwrap();
        assert!(none.shed_p99().is_nan() && none.success().is_nan());
    }
}
