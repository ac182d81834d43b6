//! The calls about users, grouped by record.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use super::{calls, held};
use crate::history::{Call, CopyPlace, Event, Outcome, RecordEnd, UserRequest};

/// The state of a record: before its creation, at a version, or deleted. It only rises, because a key is not
/// reused after a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u64);

impl Rank {
    /// The record was not created yet. This is the default.
    pub(super) const NEVER: Self = Self(0);
    /// The rank of a deleted record.
    pub(super) const DELETED: Self = Self(u64::MAX);

    pub(super) const fn at(version: u64) -> Self {
        Self(version)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => f.write_str("nothing"),
            Self::DELETED => f.write_str("a deleted record"),
            Self(version) => write!(f, "version {version}"),
        }
    }
}

/// A creation or an update that had an effect, or may have had an effect. Retries count as the same write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) value: u64,
    /// The acknowledged version, else the version with which the value was first found. `None`: neither
    /// exists.
    pub(super) version: Option<u64>,
    /// When it was first sent. It took effect after this.
    pub(super) began: u64,
    /// When it was first acknowledged. `None`: never, so it may take effect at any time after `began`.
    pub(super) acked: Option<u64>,
}

/// Everything about one record.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) key: &'a str,
    /// Ordered by begin.
    pub(super) calls: Vec<&'a Call>,
    /// Ordered by value. A value that was acknowledged with two versions is listed twice.
    pub(super) writes: Vec<Write>,
    pub(super) held: Vec<&'a RecordEnd>,
    /// When an answer first showed that the record exists.
    pub(super) known: Option<u64>,
    /// When the first deletion that was not refused was sent.
    deleting: Option<u64>,
}

impl<'a> Record<'a> {
    /// The state that the call found or made. `None`: its answer does not show a state.
    ///
    /// The answer "does not exist" counts as "not created yet" if no answer had shown the record before the
    /// call began. This choice constrains no later call. Otherwise it counts as "deleted" if a deletion was
    /// sent before the answer came, else also as "not created yet".
    pub(super) fn rank(&self, call: &Call) -> Option<Rank> {
        match call.outcome {
            Outcome::Done { version, .. } => Some(Rank::at(version)),
            Outcome::Gone => Some(self.absence(call)),
            Outcome::Refused(_) | Outcome::Open(_) => None,
        }
    }

    /// The writes with this value.
    pub(super) fn written(&self, value: u64) -> &[Write] {
        let from = self.writes.partition_point(|write| write.value < value);
        let to = self.writes.partition_point(|write| write.value <= value);
        &self.writes[from..to]
    }

    /// The state in the store at the end. `None`: it was not read.
    pub(super) fn end(&self) -> Option<FinalState> {
        let truth = self.held.iter().find(|held| held.place == CopyPlace::Store)?;
        Some(FinalState::of(truth).unwrap_or(FinalState::Gone))
    }

    /// The state in the store at the end, as text for violations.
    pub(super) fn end_in_words(&self) -> String {
        self.end().map_or_else(|| "no line in the history".to_owned(), |end| end.to_string())
    }

    /// When a deletion was first sent. `None`: never, or the record exists at the end, so no deletion had an
    /// effect.
    pub(super) fn may_be_deleted(&self) -> Option<u64> {
        self.deleting.filter(|_| !matches!(self.end(), Some(FinalState::Is { .. })))
    }

    fn absence(&self, call: &Call) -> Rank {
        let was_there = self.known.is_some_and(|known| known < call.began);
        let deleting = self.deleting.is_some_and(|deleting| deleting <= call.ended);
        if was_there && deleting { Rank::DELETED } else { Rank::NEVER }
    }

    /// Derives the other fields, once all calls and places are added.
    fn finish(&mut self) {
        self.calls.sort_by_key(|call| (call.began, call.ended));
        let found = |call: &&&Call| matches!(call.outcome, Outcome::Done { .. });
        self.known = self.calls.iter().filter(found).map(|call| call.ended).min();
        let deletes =
            |call: &&&Call| call.what == UserRequest::Delete && !matches!(call.outcome, Outcome::Refused(_));
        self.deleting = self.calls.iter().find(deletes).map(|call| call.began);
        self.writes = writes(&self.calls);
        self.learn_versions();
    }

    /// Gives each write that was never acknowledged the version with which its value was first found.
    fn learn_versions(&mut self) {
        let read = self.calls.iter().filter_map(|call| found(call));
        let held = self.held.iter().filter_map(|held| held.state.and_then(|(at, value)| Some((value?, at))));
        for (value, version) in read.chain(held) {
            if let Ok(at) = self.writes.binary_search_by_key(&value, |write| write.value) {
                // If several writes have the value, each already has a version.
                self.writes[at].version.get_or_insert(version);
            }
        }
    }
}

/// A record's state in one place at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinalState {
    /// The place reports that it does not exist.
    Gone,
    /// The record exists.
    Is {
        /// The record's version.
        version: u64,
        /// The record's value.
        value: u64,
    },
}

impl FinalState {
    /// `None`: the place has no copy, or does not show its value.
    pub(super) const fn of(held: &RecordEnd) -> Option<Self> {
        match held.state {
            _ if held.gone => Some(Self::Gone),
            Some((version, Some(value))) => Some(Self::Is { version, value }),
            Some((_, None)) | None => None,
        }
    }
}

impl fmt::Display for FinalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("no record"),
            Self::Is { version, value } => write!(f, "value {value} of version {version}"),
        }
    }
}

/// All records, in the order in which they first appear in the history.
#[derive(Debug, Default)]
pub(super) struct Records<'a> {
    all: Vec<Record<'a>>,
    by_key: HashMap<&'a str, usize, ahash::RandomState>,
}

impl<'a> Records<'a> {
    pub(super) fn new(events: &'a [Event]) -> Self {
        let created = created_keys(events);
        let mut records = Self::default();
        for call in calls(events) {
            records.record(key(call, &created)).calls.push(call);
        }
        for held in held(events) {
            records.record(&held.key).held.push(held);
        }
        records.all.iter_mut().for_each(Record::finish);
        records
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Record<'a>> {
        self.all.iter()
    }

    fn record(&mut self, key: &'a str) -> &mut Record<'a> {
        let at = *self.by_key.entry(key).or_insert(self.all.len());
        if at == self.all.len() {
            let (calls, writes, held) = (Vec::new(), Vec::new(), Vec::new());
            self.all.push(Record { key, calls, writes, held, known: None, deleting: None });
        }
        &mut self.all[at]
    }
}

/// The value and version that a read found.
pub(super) const fn found(call: &Call) -> Option<(u64, u64)> {
    match (&call.what, &call.outcome) {
        (UserRequest::Read(_), Outcome::Done { version, value, .. }) => Some((*value, *version)),
        _ => None,
    }
}

/// Whether the call is a write that was acknowledged.
pub(super) const fn acknowledged(call: &Call) -> bool {
    match (&call.what, &call.outcome) {
        (UserRequest::Read(_), _) => false,
        (_, Outcome::Done { .. }) | (UserRequest::Delete, Outcome::Gone) => true,
        (_, Outcome::Gone | Outcome::Refused(_) | Outcome::Open(_)) => false,
    }
}

/// The value that a creation or an update writes.
pub(super) const fn writes_value(what: &UserRequest) -> Option<u64> {
    match what {
        UserRequest::Create { value, .. } | UserRequest::Update { value } => Some(*value),
        UserRequest::Read(_) | UserRequest::Delete => None,
    }
}

type CreatedKeys<'a> = HashMap<u64, &'a str, ahash::RandomState>;

/// The keys of records whose creation had a call with an open outcome, by value. A key is known from the
/// answer to another attempt, else from the record in which the value was first found.
fn created_keys(events: &[Event]) -> CreatedKeys<'_> {
    let open = calls(events).filter_map(|call| match (&call.what, &call.outcome) {
        (UserRequest::Create { value, .. }, Outcome::Open(_)) => Some(*value),
        _ => None,
    });
    let open: HashSet<u64, ahash::RandomState> = open.collect();
    let answered = calls(events).filter_map(|call| match (&call.what, &call.outcome) {
        (UserRequest::Create { value, .. }, Outcome::Done { key: Some(key), .. }) => {
            Some((*value, key.as_str()))
        }
        _ => None,
    });
    let read = calls(events).filter_map(|call| Some((found(call)?.0, call.key.as_str())));
    let held = held(events).filter_map(|held| Some((held.state?.1?, held.key.as_str())));
    let mut created = CreatedKeys::default();
    for (value, key) in answered.chain(read).chain(held).filter(|(value, _)| open.contains(value)) {
        created.entry(value).or_insert(key);
    }
    created
}

fn key<'a>(call: &'a Call, created: &CreatedKeys<'a>) -> &'a str {
    match (&call.what, &call.outcome) {
        (UserRequest::Create { .. }, Outcome::Done { key: Some(key), .. }) => key,
        (UserRequest::Create { value, .. }, Outcome::Open(_)) => {
            created.get(value).copied().unwrap_or(&call.key)
        }
        _ => &call.key,
    }
}

/// The writes among these calls that had an effect or may have had an effect.
fn writes(calls: &[&Call]) -> Vec<Write> {
    let mut all: Vec<Write> = calls.iter().filter_map(|call| write(call)).collect();
    // Within a value, unacknowledged writes are first.
    all.sort_by_key(|write| (write.value, write.version, write.acked));
    all.chunk_by(|a, b| a.value == b.value).flat_map(same_value).collect()
}

fn write(call: &Call) -> Option<Write> {
    let (value, began) = (writes_value(&call.what)?, call.began);
    match call.outcome {
        Outcome::Done { version, .. } => {
            Some(Write { value, version: Some(version), began, acked: Some(call.ended) })
        }
        Outcome::Open(_) => Some(Write { value, version: None, began, acked: None }),
        Outcome::Gone | Outcome::Refused(_) => None,
    }
}

/// One write for each version with which the value was acknowledged, or one without a version.
fn same_value(calls: &[Write]) -> Vec<Write> {
    let began = calls.iter().map(|call| call.began).min().unwrap_or_default();
    let acked = calls.partition_point(|call| call.version.is_none());
    let known = if acked < calls.len() { &calls[acked..] } else { &calls[..1] };
    known.chunk_by(|a, b| a.version == b.version).map(|same| Write { began, ..same[0] }).collect()
}
