//! C3: the ages that cached answers had.

use std::collections::BTreeMap;

use super::{
    Run,
    faults::nanos,
    records::{Rank, Record, acknowledged},
    report::{CheckResult, number},
    shown::ShownSince,
};
use crate::history::{Edge, Level, UserRequest};

/// The ages of all cached answers. The age is the time from a newer state's acknowledgement to the begin of
/// the read; 0 if the answer was not stale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staleness {
    /// The ages in all cached reads.
    pub all: Ages,
    /// The ages in reads without a fault.
    pub undisturbed: Ages,
    /// The ages in reads under a fault, by its name. A read under several faults counts for each.
    pub by_fault: BTreeMap<String, Ages>,
}

/// Quantiles for ages, in nanoseconds; all 0 without a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// How many reads there were.
    pub reads: u64,
    /// The age that half the reads do not exceed.
    pub p50: u64,
    /// The age that 99 in 100 do not exceed.
    pub p99: u64,
    /// The age that 999 in 1000 do not exceed.
    pub p999: u64,
    /// The highest age.
    pub max: u64,
    /// The bound for these reads. `None`: they have different bounds. A read under several faults may have a
    /// higher bound.
    pub bound: Option<u64>,
    /// How many reads exceeded their own bound.
    pub over: u64,
}

/// C3: a cached answer is no older than its bound.
pub(super) fn check(run: &Run<'_>) -> (CheckResult, Staleness) {
    let mut checked = CheckResult::new("C3 bounded staleness");
    let mut seen = AgesSeen::new(run);
    let mut judge = |when: [u64; 2], age: u64, read: &dyn Fn() -> String| {
        checked.count_judged();
        if let Some(bound) = seen.exceeded(when, age) {
            checked.violation(|| format!("{} at {} ns, stale for {age} ns of {bound}", read(), when[0]));
        }
    };
    for record in run.records.iter() {
        let written = written(record);
        for call in &record.calls {
            let (UserRequest::Read(Level::Cached), Some(rank)) = (&call.what, record.rank(call)) else {
                continue;
            };
            let age = written.age(rank, call.began);
            judge([call.began, call.ended], age, &|| {
                format!("{}: client {} read {rank}", record.key, call.client)
            });
        }
    }
    for (call, Edge(from, to), age) in run.relations.ages() {
        judge([call.began, call.ended], age, &|| {
            format!("follow:{from},{to}: client {} read {:?}", call.client, call.outcome)
        });
    }
    for (call, conversation, age) in run.messages.ages() {
        judge([call.began, call.ended], age, &|| {
            format!("{conversation}: client {} read through node {}", call.client, call.node)
        });
    }
    let staleness = seen.staleness();
    (checked, staleness)
}

/// The ages in the reads so far.
struct AgesSeen<'a, 'b> {
    run: &'b Run<'a>,
    healthy: u64,
    all: AgeSample,
    undisturbed: AgeSample,
    by_fault: BTreeMap<&'a str, AgeSample>,
}

impl<'a, 'b> AgesSeen<'a, 'b> {
    fn new(run: &'b Run<'a>) -> Self {
        let healthy = nanos(run.bounds.healthy);
        let (all, undisturbed) = (AgeSample::default(), AgeSample::default());
        Self { run, healthy, all, undisturbed, by_fault: BTreeMap::new() }
    }

    /// Adds a read: its begin and end, and its age. Returns its bound if the age exceeds it.
    fn exceeded(&mut self, when: [u64; 2], age: u64) -> Option<u64> {
        let faults = &self.run.faults;
        let bound = self.run.bound(when);
        self.all.add(age, bound);
        if faults.around(when).next().is_some() {
            faults.around(when).for_each(|name| self.by_fault.entry(name).or_default().add(age, bound));
        } else {
            self.undisturbed.add(age, bound);
        }
        (age > bound).then_some(bound)
    }

    fn staleness(self) -> Staleness {
        let bound = |name: &str| self.run.faults.bound(name);
        let by_fault = self.by_fault.into_iter();
        let by_fault = by_fault.map(|(name, ages)| (name.to_owned(), ages.ages(bound(name)))).collect();
        let (all, undisturbed) = (self.all.ages(None), self.undisturbed.ages(Some(self.healthy)));
        Staleness { all, undisturbed, by_fault }
    }
}

/// A record's acknowledged states, with their times.
fn written(record: &Record<'_>) -> ShownSince<Rank> {
    let writes = record.calls.iter().filter(|call| acknowledged(call));
    ShownSince::new(writes.filter_map(|call| Some((record.rank(call)?, call.ended))).collect())
}

#[derive(Default)]
struct AgeSample {
    ages: Vec<u64>,
    over: u64,
}

impl AgeSample {
    fn add(&mut self, age: u64, bound: u64) {
        self.ages.push(age);
        self.over += u64::from(age > bound);
    }

    fn ages(mut self, bound: Option<u64>) -> Ages {
        self.ages.sort_unstable();
        let of = |thousandths: usize| {
            // The smallest age that this share of the reads does not exceed.
            let rank = self.ages.len().saturating_mul(thousandths).div_ceil(1_000);
            self.ages.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        Ages {
            reads: number(self.ages.len()),
            p50: of(500),
            p99: of(990),
            p999: of(999),
            max: of(1_000),
            bound,
            over: self.over,
        }
    }
}
