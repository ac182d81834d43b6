//! Rows that were never run, for tests that check the reports.

use super::{
    JudgedRun, RunSummary,
    rows::{ROWS, Row},
};
use crate::history::{Call, Event, Fault, Level, Outcome, UserRequest};

const MS: u64 = 1_000_000;

pub(super) fn row(name: &str) -> &'static Row {
    ROWS.iter().find(|row| row.name == name).expect("a row of the table")
}

/// The fault is on from 2 s to 3 s. A record is written again at 1 s. One read `stale_ms` after that returns
/// the previous value, and a hundred others return the new value.
pub(super) fn judged(name: &str, stale_ms: u64) -> JudgedRun {
    let row = row(name);
    let turn = |at: u64, on| Event::Fault(Fault { at: at * MS, what: row.name.to_owned(), on });
    let mut events = vec![written(1, 1), written(1_000, 2), turn(2_000, true), turn(3_000, false)];
    events.push(read(1_001 + stale_ms, 1));
    events.extend((0..100).map(|at| read(1_500 + at, 2)));
    of(row, &events)
}

fn of(row: &Row, events: &[Event]) -> JudgedRun {
    let summary = RunSummary { calls: 103, seconds: 27.5, starting: 6.25, deaths: 0, figures: Vec::new() };
    JudgedRun::new(row.into(), summary, events)
}

fn written(at: u64, version: u64) -> Event {
    let value = version;
    let what = if version == 1 {
        UserRequest::Create { name: "ada".to_owned(), value }
    } else {
        UserRequest::Update { value }
    };
    call(at, what, version)
}

fn read(at: u64, version: u64) -> Event {
    call(at, UserRequest::Read(Level::Cached), version)
}

fn call(at: u64, what: UserRequest, version: u64) -> Event {
    Event::Call(Call {
        client: 1,
        pinned: false,
        node: u32::from(!matches!(what, UserRequest::Read(_))),
        began: at * MS,
        ended: (at + 1) * MS,
        key: "user:1".to_owned(),
        what,
        request_id: None,
        outcome: Outcome::Done { version, value: version, key: None },
    })
}
