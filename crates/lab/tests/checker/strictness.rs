//! A change to settings may be visible before it is acknowledged: what reads may show then.

use kith_lab::history::{Edge, Event, Level, RelationOutcome, RelationRequest, Setting, Settings};

use crate::builder::{failed_checks_of, relates};

const PAIR: Edge = Edge(1, 2);
const BEFORE: Settings = Settings { version: 1, blocked: false, permissions: None };
const AFTER: Settings = Settings { version: 2, blocked: true, permissions: None };

fn call(client: u32, time: [u64; 2], what: RelationRequest, outcome: RelationOutcome) -> Event {
    Event::Relation(relates(client, time, what, outcome))
}

fn read(client: u32, at: [u64; 2], level: Level, settings: Settings) -> Event {
    let found = RelationOutcome::Found { follow: None, followed_by: None, settings };
    call(client, at, RelationRequest::Get(PAIR, level), found)
}

/// The pair is permitted at first; the block is sent at 20 and acknowledged at 60.
fn failed_checks(reads: &[Event]) -> Vec<&'static str> {
    let unblocked =
        call(1, [1, 10], RelationRequest::Set(PAIR, Setting::Unblock), RelationOutcome::Set(BEFORE, false));
    let blocked =
        call(1, [20, 60], RelationRequest::Set(PAIR, Setting::Block), RelationOutcome::Set(AFTER, false));
    failed_checks_of(&[&[unblocked, blocked], reads].concat())
}

#[test]
fn reads_of_the_store_may_be_ahead_of_memories() {
    for level in [Level::Strong, Level::AtLeast(0)] {
        let ahead = read(2, [30, 31], level, AFTER);
        let behind = read(3, [40, 41], Level::Cached, BEFORE);
        let decided = call(4, [42, 43], RelationRequest::Check(PAIR, 0), RelationOutcome::Allows(true, 0));
        assert_eq!(failed_checks(&[ahead, behind, decided]), [""; 0]);
    }
}

#[test]
fn a_memory_that_is_behind_another_one_is_caught() {
    let ahead = read(2, [30, 31], Level::Cached, AFTER);
    let behind = read(3, [40, 41], Level::Cached, BEFORE);
    assert_eq!(failed_checks(&[ahead, behind]), ["C14"]);
}

#[test]
fn memory_behind_acknowledgement_is_caught() {
    let ahead = read(2, [30, 31], Level::Strong, AFTER);
    let behind = read(3, [61, 62], Level::Cached, BEFORE);
    assert_eq!(failed_checks(&[ahead, behind]), ["C14"]);
}
