//! C4: strong reads and writes of a record are linearizable: there is an order in which each call takes
//! effect between its begin and its end, and every read finds the last write before it.
//!
//! In general such an order has to be searched for. Here the answers show it, because the answer to a write
//! contains its version, and no two writes write the same value. The rank of a call is the version that it
//! made or found. It is 0 if the call found that the record did not exist yet, and above all versions if the
//! call found or made the record deleted. The calls are linearizable if and only if
//!
//! 1. each value that a read found is from a write that began before the read ended (that there is such a
//!    write is C6);
//! 2. no two writes have the same version;
//! 3. if one call ended before another began, the later call has at least the same rank; if it is a write, a
//!    higher rank;
//! 4. each missing version belongs to a write with an open outcome that began before any answer showed a
//!    newer version. A version is missing if no answer showed it, and answers showed a higher version. The
//!    first version, from the creation, is exempt: a creation with an open outcome belongs to no record until
//!    its value is found.
//!
//! The rules are necessary: writes take effect in the order of their versions, and a call that ended has
//! taken effect before any call that begins later.
//!
//! They are sufficient. Order the calls by rank; within a rank the write is first, then its reads by the time
//! at which they began. Every read then follows its own write with no other write in between. It remains to
//! show that the order agrees with real time. Let `a` end before `b` begins. By 3, the rank of `b` is not
//! lower. If it is higher, `b` comes after `a`. If it is the same, `b` is no write, because 3 requires a
//! higher rank of a write. So `a` comes first, whether it is the write or a read that began earlier; by 1, no
//! read ended before its own write began. For the highest rank, the deletion that began first is the write,
//! and the other calls that found or made the record deleted are reads.
//!
//! A write with an open outcome that was seen has the version with which it was seen, and never ends. A write
//! that was not seen is left out, because it had no effect, or none yet, unless rule 4 needs it for a missing
//! version. These are assigned in order: the write that began first gets the lowest missing version. This
//! finds an assignment if there is any, because the latest permitted begin rises with the version.
//!
//! To check 3, each call is compared with the highest rank among the calls that ended before it began.
//!
//! "Does not exist" may mean rank 0 or the highest rank. It counts as 0 if no call with rank 1 or more had
//! ended before it began: that violates no rule, and constrains no later call. Otherwise it counts as the
//! highest rank, which requires a deletion that began before the answer came.
//!
//! Cached answers are checked only by 1. But no copy is ahead of the store, so a cached answer shows that the
//! store had reached its version: a call that begins after such an answer must not find an older version.

use super::{
    Run,
    records::{Rank, Record, Write, found},
    relations,
    report::CheckResult,
    shown::{ShownSince, ShownUntil},
};
use crate::history::{Call, Level, Outcome, UserRequest};

/// The version that a creation makes.
const FIRST: u64 = 1;

/// C4: see the module documentation.
pub(super) fn check(run: &Run<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C4 strong reads");
    for record in run.records.iter() {
        found_in_time(record, &mut checked);
        let versions = versions(record, &mut checked);
        let shown = shown(record);
        in_order(record, &ShownUntil::new(shown.iter().copied()), &mut checked);
        without_gaps(record, &versions, &ShownSince::new(shown), &mut checked);
    }
    relations::strong(&run.relations, &mut checked);
    checked
}

/// Checks a record by rule 1.
fn found_in_time(record: &Record<'_>, checked: &mut CheckResult) {
    for call in &record.calls {
        let Some(write) = write_found(record, call) else { continue };
        if write.began > call.ended {
            checked.violation(|| {
                let (key, value, ended, began) = (record.key, write.value, call.ended, write.began);
                format!("{key}: value {value} was read at {ended} ns and its write began at {began} ns")
            });
        }
    }
}

/// Rule 2. Returns the versions that answers showed, by rising number.
fn versions(record: &Record<'_>, checked: &mut CheckResult) -> Vec<u64> {
    let known = record.writes.iter().filter_map(|write| Some((write.version?, write.value)));
    let mut known: Vec<(u64, u64)> = known.collect();
    known.sort_unstable();
    for pair in known.windows(2) {
        let [(version, one), (same, other)] = [pair[0], pair[1]];
        if version == same {
            checked.violation(|| {
                format!("{}: values {one} and {other} were both written as version {version}", record.key)
            });
        }
    }
    known.dedup_by_key(|(version, _)| *version);
    known.into_iter().map(|(version, _)| version).collect()
}

/// The answers that show which state the record had reached: the rank, and when the answer came.
fn shown(record: &Record<'_>) -> Vec<(Rank, u64)> {
    let answers = record.calls.iter().filter(|call| judged(call) || write_found(record, call).is_some());
    answers.filter_map(|call| Some((record.rank(call)?, call.ended))).collect()
}

/// Checks a record by rule 3.
fn in_order(record: &Record<'_>, shown: &ShownUntil<Rank>, checked: &mut CheckResult) {
    for asked in asked(record) {
        let floor = shown.before(asked.began);
        checked.count_judged();
        if asked.rank < floor || asked.writes.is_some() && asked.rank == floor {
            checked.violation(|| asked.violation(record, floor));
        }
    }
}

/// Checks a record by rule 4.
fn without_gaps(record: &Record<'_>, versions: &[u64], shown: &ShownSince<Rank>, checked: &mut CheckResult) {
    let unseen = record.writes.iter().filter(|write| write.version.is_none());
    let mut unseen: Vec<u64> = unseen.map(|write| write.began).collect();
    unseen.sort_unstable();
    let mut unseen = unseen.into_iter();
    let before = std::iter::once(&FIRST).chain(versions);
    for (before, version) in before.zip(versions) {
        // Stops at the first version without an open write, so a large gap costs nothing.
        let unmade = (before + 1..*version).find(|version| {
            let until = shown.newer_than(Rank::at(*version)).unwrap_or(u64::MAX);
            unseen.next().is_none_or(|began| began > until)
        });
        if let Some(version) = unmade {
            checked.violation(|| format!("{}: no write can have made version {version}", record.key));
        }
    }
}

/// A call that must be linearizable.
struct RegisterCall {
    began: u64,
    rank: Rank,
    /// The written value, for a write.
    writes: Option<u64>,
}

impl RegisterCall {
    fn violation(&self, record: &Record<'_>, floor: Rank) -> String {
        let (key, Self { began, rank, .. }) = (record.key, self);
        match self.writes {
            Some(value) => {
                format!("{key}: the write of value {value} at {began} ns became {rank}, after {floor}")
            }
            None => format!("{key}: {rank} was found at {began} ns, after {floor}"),
        }
    }
}

/// The calls that rule 3 applies to, ordered by their begin.
fn asked(record: &Record<'_>) -> Vec<RegisterCall> {
    let write = |write: &Write| {
        let rank = Rank::at(write.version?);
        Some(RegisterCall { began: write.began, rank, writes: Some(write.value) })
    };
    let read = |call: &&Call| {
        let reads = matches!(call.what, UserRequest::Read(_)) || call.outcome == Outcome::Gone;
        let rank = record.rank(call).filter(|_| reads && judged(call))?;
        Some(RegisterCall { began: call.began, rank, writes: None })
    };
    let writes = record.writes.iter().filter_map(write);
    let mut all: Vec<RegisterCall> = writes.chain(record.calls.iter().filter_map(read)).collect();
    all.sort_by_key(|asked| asked.began);
    all
}

/// Whether the answer must come from the store itself.
const fn judged(call: &Call) -> bool {
    !matches!(call.what, UserRequest::Read(Level::Cached | Level::AtLeast(_)))
}

/// The write that a read found. `None` for another call, or if there is no such write.
fn write_found<'b>(record: &'b Record<'_>, call: &Call) -> Option<&'b Write> {
    let (value, version) = found(call)?;
    record.written(value).iter().find(|write| write.version == Some(version))
}
