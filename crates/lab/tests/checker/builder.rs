//! Histories written by hand. Times are milliseconds; a value is ten times the version it is written as,
//! unless a test says otherwise.

use std::{collections::BTreeMap, time::Duration};

use kith_lab::{
    checker::{Bounds, FaultEffect, Report, check},
    history::{
        Call, CopyPlace, Event, Fault, Level, NodeStart, Outcome, RecordEnd, RelationCall, RelationOutcome,
        RelationRequest, UserRequest,
    },
};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const KEY: &str = "user:1";

pub(crate) const BOUNDS: Bounds = Bounds {
    healthy: Duration::from_millis(100),
    faulty: FaultEffect { bound: Duration::from_millis(1_000), heals: Duration::from_millis(500) },
    by_fault: BTreeMap::new(),
};

/// A history that is being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct HistoryBuilder(Vec<Event>);

impl HistoryBuilder {
    /// The record was made before 10 ms, by client 9 on node 9.
    pub(crate) fn of_one_record() -> Self {
        Self::default().call(calls(9, 9).from(1).to(2).creates("ada", 10).done(1, 10))
    }

    /// Like `of_one_record`, with these versions written, each 10 ms after the previous version.
    pub(crate) fn written_until(version: u64) -> Self {
        (2..=version).fold(Self::of_one_record(), |history, version| {
            history.call(
                calls(9, 9).from(10 * version).to(10 * version + 1).updates(10 * version).done_as(version),
            )
        })
    }

    pub(crate) fn call(mut self, call: Call) -> Self {
        self.0.push(Event::Call(call));
        self
    }

    pub(crate) fn fault(mut self, what: &str, on: u64, off: u64) -> Self {
        let turn = |at: u64, on| Event::Fault(Fault { at: at * MS, what: what.to_owned(), on });
        self.0.extend([turn(on, true), turn(off, false)]);
        self
    }

    /// The node was started again then.
    pub(crate) fn started(mut self, node: u32, at: u64) -> Self {
        self.0.push(Event::Started(NodeStart { node, at: at * MS }));
        self
    }

    /// The place has this version and value at the end.
    pub(crate) fn held(self, place: CopyPlace, version: u64, value: u64) -> Self {
        self.holds(place, Some((version, Some(value))), false)
    }

    pub(crate) fn holds(mut self, place: CopyPlace, state: Option<(u64, Option<u64>)>, gone: bool) -> Self {
        self.0.push(Event::Held(RecordEnd { key: KEY.to_owned(), place, state, gone }));
        self
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.0
    }

    pub(crate) fn report(&self) -> Report {
        self.judged_by(&BOUNDS)
    }

    pub(crate) fn judged_by(&self, bounds: &Bounds) -> Report {
        check(&self.0, bounds)
    }

    pub(crate) fn failed_checks(&self) -> Vec<&'static str> {
        failed_checks_of(&self.0)
    }
}

impl AsRef<[Event]> for HistoryBuilder {
    fn as_ref(&self) -> &[Event] {
        &self.0
    }
}

/// A case: its description, the checks that fail, and the history.
pub(crate) type Case<T> = (&'static str, &'static [&'static str], T);

pub(crate) const SOUND: &[&str] = &[];

pub(crate) fn assert_judged<T: AsRef<[Event]>>(cases: impl IntoIterator<Item = Case<T>>) {
    for (name, broken, history) in cases {
        assert_eq!(failed_checks_of(history.as_ref()), broken, "{name}");
    }
}

/// The numbers of the checks that fail for these events.
pub(crate) fn failed_checks_of(events: &[Event]) -> Vec<&'static str> {
    failed_checks(&check(events, &BOUNDS))
}

/// The numbers of the checks that fail.
pub(crate) fn failed_checks(report: &Report) -> Vec<&'static str> {
    let checks = report.checks.iter().filter(|check| !check.holds());
    checks.map(|check| check.name.split(' ').next().unwrap()).collect()
}

/// A call about relations by a client that does not stay with its node. A write has a request id.
pub(crate) fn relates(
    client: u32,
    time: [u64; 2],
    what: RelationRequest,
    outcome: RelationOutcome,
) -> RelationCall {
    let writes =
        matches!(what, RelationRequest::Follow(_) | RelationRequest::Unfollow(_) | RelationRequest::Set(..));
    let request_id = writes.then(|| format!("{client}-{}", time[0]));
    let [began, ended] = time.map(|at| at * MS);
    RelationCall { client, pinned: false, node: client, began, ended, what, request_id, outcome }
}

/// A strong read for [`KEY`] by a client that moves between nodes: the default for calls.
pub(crate) fn calls(client: u32, node: u32) -> CallBuilder {
    CallBuilder(Call {
        client,
        pinned: false,
        node,
        began: 0,
        ended: 0,
        key: KEY.to_owned(),
        what: UserRequest::Read(Level::Strong),
        request_id: None,
        outcome: Outcome::Gone,
    })
}

/// A call that is being written.
#[derive(Clone, Debug)]
pub(crate) struct CallBuilder(Call);

impl CallBuilder {
    pub(crate) fn pinned(mut self) -> Self {
        self.0.pinned = true;
        self
    }

    pub(crate) fn from(mut self, began: u64) -> Self {
        self.0.began = began * MS;
        self.to(began + 1)
    }

    pub(crate) fn to(mut self, ended: u64) -> Self {
        self.0.ended = ended * MS;
        self
    }

    pub(crate) fn key(mut self, key: &str) -> Self {
        key.clone_into(&mut self.0.key);
        self
    }

    pub(crate) fn with_id(mut self, id: &str) -> Self {
        self.0.request_id = Some(id.to_owned());
        self
    }

    pub(crate) fn reads(mut self, level: Level) -> Self {
        self.0.what = UserRequest::Read(level);
        self
    }

    pub(crate) fn creates(mut self, name: &str, value: u64) -> Self {
        self.0.what = UserRequest::Create { name: name.to_owned(), value };
        self
    }

    pub(crate) fn updates(mut self, value: u64) -> Self {
        self.0.what = UserRequest::Update { value };
        self
    }

    pub(crate) fn deletes(mut self) -> Self {
        self.0.what = UserRequest::Delete;
        self
    }

    pub(crate) fn done(self, version: u64, value: u64) -> Call {
        self.ends(Outcome::Done { version, value, key: None })
    }

    /// Done, with the value that belongs to the version.
    pub(crate) fn done_as(self, version: u64) -> Call {
        self.done(version, 10 * version)
    }

    /// A creation that made this record.
    pub(crate) fn made(self, key: &str, value: u64) -> Call {
        self.ends(Outcome::Done { version: 1, value, key: Some(key.to_owned()) })
    }

    pub(crate) fn gone(self) -> Call {
        self.ends(Outcome::Gone)
    }

    pub(crate) fn refused(self, code: &str) -> Call {
        self.ends(Outcome::Refused(code.to_owned()))
    }

    pub(crate) fn open(self) -> Call {
        self.ends(Outcome::Open("UNAVAILABLE".to_owned()))
    }

    pub(crate) fn ends(mut self, outcome: Outcome) -> Call {
        self.0.outcome = outcome;
        self.0
    }
}
