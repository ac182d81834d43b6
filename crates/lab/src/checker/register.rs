//! C4: strong reads and writes of a record are linearizable: they can be put into one order, each at a moment between
//! its beginning and its end, in which every read finds the last write before it.
//!
//! In general such an order has to be searched for. Here the answers show it, since a write is answered with its
//! version and no two writes write the same value. Let the rank of a call be the version that it made or found; 0 if it
//! found that the record did not exist yet, and above all versions if it found or made it deleted. Then the calls are
//! linearizable if, and only if
//!
//! 1. what a read found was written, by a write that began before the read ended (that it was written at all is C6);
//! 2. no two writes have the same version;
//! 3. of two calls of which one ended before the other began, the later one has no lower rank, and if it is a write, a
//!    higher one;
//! 4. a version that no answer showed belongs to a write whose outcome is open, and which began before any answer
//!    showed a newer version.
//!
//! No linearizable history violates these: writes take effect in the order of their versions, and a call that ended has
//! taken effect before one that begins later. They are sufficient: order the calls by rank, within a rank the write
//! first, then its reads by when they began. Every read then follows its own write with no other in between. And the
//! order agrees with real time, which is all that linearizable requires. Let a end before b begins. By 3 the rank of b
//! is not lower. If it is higher, b comes after a. If it is the same, b is no write (3, and 2 for two writes), and
//! whether a is the write or another read, it comes first; by 1 no read ended before its own write began. Above all
//! versions the deletion that began first is the write, and the others are reads.
//!
//! An open write that was seen has the version with which it was seen, and never ends. One that was not seen is left
//! out, as it had no effect, or not yet; except those that 4 needs. Among these, to give the lowest missing version to
//! the one that began first works whenever any assignment does: the times until which they have to have begun rise with
//! the versions.
//!
//! To check 3 it is enough to compare each call with the highest rank among those that ended before it began, which one
//! pass over both in the order of time does.
//!
//! "Does not exist" may mean rank 0 or the highest. It is taken as 0 whenever no call with rank 1 or more had ended
//! before it began: this can violate no rule, and constrains no later call. Otherwise only the highest is left, and
//! needs a deletion that began before the answer came.
//!
//! Cached answers are not judged here, except by 1. They do show that the store had come so far, since no copy is ahead
//! of the store: what begins after such an answer must not be older.

use super::{
    Run,
    records::{Rank, Record, Write, found},
    relations,
    report::Checked,
    since::Since,
};
use crate::history::{Call, Level, Outcome, What};

/// C4: see above.
pub(super) fn check(run: &Run<'_>) -> Checked {
    let mut checked = Checked::new("C4 strong reads");
    for record in run.records.iter() {
        found_in_time(record, &mut checked);
        let versions = versions(record, &mut checked);
        let told = told(record);
        in_order(record, &told, &mut checked);
        without_gaps(record, &versions, &Since::new(told), &mut checked);
    }
    relations::strong(&run.relations, &mut checked);
    checked
}

/// Rule 1.
fn found_in_time(record: &Record<'_>, checked: &mut Checked) {
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

/// Rule 2; returns the versions that answers showed, rising.
fn versions(record: &Record<'_>, checked: &mut Checked) -> Vec<u64> {
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

/// The answers that show how far the record had come: what they showed, and when.
fn told(record: &Record<'_>) -> Vec<(Rank, u64)> {
    let answers = record.calls.iter().filter(|call| judged(call) || write_found(record, call).is_some());
    answers.filter_map(|call| Some((record.rank(call)?, call.ended))).collect()
}

/// Rule 3.
fn in_order(record: &Record<'_>, told: &[(Rank, u64)], checked: &mut Checked) {
    let mut told: Vec<(u64, Rank)> = told.iter().map(|(rank, at)| (*at, *rank)).collect();
    told.sort_unstable();
    let mut told = told.into_iter().peekable();
    let mut floor = Rank::NEVER;
    for asked in asked(record) {
        while let Some((_, rank)) = told.next_if(|(at, _)| *at < asked.began) {
            floor = floor.max(rank);
        }
        checked.look();
        if asked.rank < floor || asked.writes.is_some() && asked.rank == floor {
            checked.violation(|| asked.violation(record, floor));
        }
    }
}

/// Rule 4.
fn without_gaps(record: &Record<'_>, versions: &[u64], told: &Since<Rank>, checked: &mut Checked) {
    let unseen = record.writes.iter().filter(|write| write.version.is_none());
    let mut unseen: Vec<u64> = unseen.map(|write| write.began).collect();
    unseen.sort_unstable();
    let mut unseen = unseen.into_iter();
    for pair in versions.windows(2) {
        // Ends early: with the open writes, or after the first version without one.
        let nobody = (pair[0] + 1..pair[1]).find(|version| {
            let until = told.newer_than(Rank::at(*version)).unwrap_or(u64::MAX);
            unseen.next().is_none_or(|began| began > until)
        });
        if let Some(version) = nobody {
            checked.violation(|| format!("{}: nobody can have written version {version}", record.key));
        }
    }
}

/// A write, or a read that must be linearizable.
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
        let reads = matches!(call.what, What::Read(_)) || call.outcome == Outcome::Gone;
        let rank = record.rank(call).filter(|_| reads && judged(call))?;
        Some(RegisterCall { began: call.began, rank, writes: None })
    };
    let writes = record.writes.iter().filter_map(write);
    let mut all: Vec<RegisterCall> = writes.chain(record.calls.iter().filter_map(read)).collect();
    all.sort_by_key(|asked| asked.began);
    all
}

/// Whether the store itself must have answered.
const fn judged(call: &Call) -> bool {
    !matches!(call.what, What::Read(Level::Cached | Level::AtLeast(_)))
}

/// The write that a read found. `None` for another call, or if there is no such write.
fn write_found<'b>(record: &'b Record<'_>, call: &Call) -> Option<&'b Write> {
    let (value, version) = found(call)?;
    record.written(value).iter().find(|write| write.version == Some(version))
}
