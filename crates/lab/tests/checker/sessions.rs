use kith_lab::history::{
    Call, Edge, Event,
    Level::{AtLeast, Cached},
    NodeStart, RelationCall, RelationOutcome, RelationRequest, Settings,
};

use crate::builder::{HistoryBuilder, MS, SOUND, assert_judged, calls, failed_checks_of, relates};

const EDGE: Edge = Edge(1, 2);

/// Client 1 stays with node 1.
fn sees(at: u64, version: u64) -> Event {
    let found =
        RelationOutcome::Found { follow: Some(version), followed_by: None, settings: Settings::default() };
    let call = relates(1, [at, at + 1], RelationRequest::Get(EDGE, Cached), found);
    Event::Relation(RelationCall { pinned: true, ..call })
}

/// The edge is followed as versions 5 and 7; `events` is what client 1 sees.
fn follow_seen(events: &[Event]) -> Vec<&'static str> {
    let followed = [
        relates(9, [10, 11], RelationRequest::Follow(EDGE), RelationOutcome::Follows(5)),
        relates(9, [20, 21], RelationRequest::Unfollow(EDGE), RelationOutcome::Ended(6)),
        relates(9, [30, 31], RelationRequest::Follow(EDGE), RelationOutcome::Follows(7)),
    ];
    failed_checks_of(&[&followed.map(Event::Relation), events].concat())
}

/// A client that stays with its node reads a version.
fn pinned_read(at: u64, version: u64) -> Call {
    calls(1, 1).pinned().reads(Cached).from(at).done_as(version)
}

const C1: &[&str] = &["C1"];
const C2: &[&str] = &["C2"];

#[test]
fn pinned_reads_never_go_back() {
    let written = || HistoryBuilder::written_until(4);
    let back = || written().call(pinned_read(60, 4)).call(pinned_read(70, 3));
    let violation = &back().report().checks[0].violations[0];
    assert!(violation.starts_with("user:1: client 1 on node 1 read version 3"), "{violation}");
    let forward = written().call(pinned_read(60, 3)).call(pinned_read(70, 3)).call(pinned_read(80, 4));
    assert_judged([
        ("the same version and a newer one", SOUND, forward),
        ("an older version", C1, back()),
        ("across a restart", SOUND, back().started(1, 65)),
        ("across the restart of another node", C1, back().started(2, 65)),
        ("between two restarts", C1, back().started(1, 55).started(1, 75)),
        ("after a restart", C1, back().started(1, 65).call(pinned_read(80, 2))),
    ]);
}

#[test]
fn follow_goes_back_only_across_a_restart() {
    let started = |node, at| Event::Started(NodeStart { node, at: at * MS });
    assert_eq!(follow_seen(&[sees(60, 5), sees(70, 7)]), [""; 0]);
    assert_eq!(follow_seen(&[sees(60, 7), sees(70, 5)]), ["C1"]);
    assert_eq!(follow_seen(&[sees(60, 7), started(2, 65), sees(70, 5)]), ["C1"]);
    assert_eq!(follow_seen(&[sees(60, 7), started(1, 65), sees(70, 5)]), [""; 0]);
}

#[test]
fn pinned_reads_of_a_deleted_record() {
    let record = HistoryBuilder::of_one_record;
    let gone = |at| calls(1, 1).pinned().reads(Cached).from(at).gone();
    let deleted = record().call(pinned_read(20, 1)).call(calls(2, 2).deletes().from(25).gone());
    let deleted = deleted.call(gone(30));
    // The deletion lasts from 3 to 50.
    let during = record().call(calls(2, 2).deletes().from(3).to(50).gone());
    let during = during.call(gone(4)).call(pinned_read(10, 1));
    assert_judged([
        ("not found, and not deleted", C1, record().call(pinned_read(20, 1)).call(gone(30))),
        ("not found after the deletion", SOUND, deleted.clone()),
        ("found after it was not", C1, deleted.call(pinned_read(40, 1))),
        ("found during the deletion", SOUND, during.clone()),
        ("not found, and found again", C1, during.call(gone(20)).call(pinned_read(30, 1))),
    ]);
}

#[test]
fn moved_client_needs_a_token_to_read_as_new() {
    let read = |node, at| calls(1, node).reads(Cached).from(at);
    let by_token = |version| calls(1, 1).reads(AtLeast(3)).from(60).done_as(version);
    let written = || HistoryBuilder::written_until(4);
    assert_judged([
        ("moved without a token", SOUND, written().call(read(1, 60).done_as(4)).call(read(2, 70).done_as(3))),
        ("the version of the token", SOUND, written().call(by_token(3))),
        ("a newer version", SOUND, written().call(by_token(4))),
        ("below the token", C1, written().call(by_token(2))),
    ]);
}

#[test]
fn own_writes_are_read() {
    let history = || HistoryBuilder::written_until(4).call(calls(1, 1).updates(50).from(60).done_as(5));
    let read = |node, version| calls(1, node).reads(Cached).from(70).done_as(version);
    let by_token = |token, version| calls(1, 2).reads(AtLeast(token)).from(70).done_as(version);
    let deleted = || HistoryBuilder::of_one_record().call(calls(1, 1).deletes().from(20).gone());
    let read_after = calls(1, 1).reads(Cached).from(30);
    assert_judged([
        ("on the same node", SOUND, history().call(read(1, 5))),
        ("not yet on another node", SOUND, history().call(read(2, 4))),
        ("not on the same node", C2, history().call(read(1, 4))),
        ("by the token of the write", SOUND, history().call(by_token(5, 5))),
        ("by an older token", SOUND, history().call(by_token(4, 4))),
        ("not by the token of the write", &["C1", "C2"], history().call(by_token(5, 4))),
        ("an own deletion", SOUND, deleted().call(read_after.clone().gone())),
        ("not an own deletion", C2, deleted().call(read_after.done_as(1))),
    ]);
}
