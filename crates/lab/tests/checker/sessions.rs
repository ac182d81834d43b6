use kith_lab::history::{
    About, Call, Edge, Event,
    Level::{AtLeast, Cached},
    Relates, RelationCall, Settings, Started,
};

use crate::tale::{MS, Tale, broken_by, calls, relates};

const EDGE: Edge = Edge(1, 2);

/// Client 1 stays with node 1.
fn sees(at: u64, version: u64) -> Event {
    let found = Relates::Found { follow: Some(version), followed_by: None, settings: Settings::default() };
    let call = relates(1, [at, at + 1], About::Get(EDGE, Cached), found);
    Event::Relation(RelationCall { pinned: true, ..call })
}

/// Followed as versions 5 and 7, and what client 1 sees of it.
fn follow_seen(events: &[Event]) -> Vec<&'static str> {
    let followed = [
        relates(9, [10, 11], About::Follow(EDGE), Relates::Follows(5)),
        relates(9, [20, 21], About::Unfollow(EDGE), Relates::Ended(6)),
        relates(9, [30, 31], About::Follow(EDGE), Relates::Follows(7)),
    ];
    broken_by(&[&followed.map(Event::Relation), events].concat())
}

/// A client that stays with its node reads a version.
fn pinned_read(at: u64, version: u64) -> Call {
    calls(1, 1).pinned().reads(Cached).from(at).done_as(version)
}

#[test]
fn pinned_client_may_repeat_version_and_advance() {
    let tale = Tale::written_until(4);
    assert_eq!(
        tale.call(pinned_read(60, 3)).call(pinned_read(70, 3)).call(pinned_read(80, 4)).broken(),
        [""; 0]
    );
}

#[test]
fn pinned_client_that_goes_back_is_caught() {
    let tale = Tale::written_until(4).call(pinned_read(60, 4)).call(pinned_read(70, 3));
    assert_eq!(tale.broken(), ["C1"]);
    let violation = &tale.report().checks[0].violations[0];
    assert!(violation.starts_with("user:1: client 1 on node 1 read version 3"), "{violation}");
}

#[test]
fn node_goes_back_only_across_a_restart() {
    let tale = Tale::written_until(4).call(pinned_read(60, 4)).call(pinned_read(70, 3));
    assert_eq!(tale.clone().started(1, 65).broken(), [""; 0]);
    assert_eq!(tale.clone().started(2, 65).broken(), ["C1"], "another node was");
    assert_eq!(tale.clone().started(1, 55).started(1, 75).broken(), ["C1"], "not in between");
    assert_eq!(tale.started(1, 65).call(pinned_read(80, 2)).broken(), ["C1"]);
}

#[test]
fn follow_goes_back_only_across_a_restart() {
    let started = |node, at| Event::Started(Started { node, at: at * MS });
    assert_eq!(follow_seen(&[sees(60, 5), sees(70, 7)]), [""; 0]);
    assert_eq!(follow_seen(&[sees(60, 7), sees(70, 5)]), ["C1"]);
    assert_eq!(follow_seen(&[sees(60, 7), started(2, 65), sees(70, 5)]), ["C1"]);
    assert_eq!(follow_seen(&[sees(60, 7), started(1, 65), sees(70, 5)]), [""; 0]);
}

#[test]
fn pinned_client_that_loses_a_record_is_caught() {
    let read = |at| calls(1, 1).pinned().reads(Cached).from(at);
    assert_eq!(Tale::of_one_record().call(read(20).done_as(1)).call(read(30).gone()).broken(), ["C1"]);
}

#[test]
fn pinned_read_of_record_seen_deleted_is_caught() {
    let read = |at| calls(1, 1).pinned().reads(Cached).from(at);
    let tale = Tale::of_one_record().call(read(20).done_as(1)).call(calls(2, 2).deletes().from(25).gone());
    let tale = tale.call(read(30).gone());
    assert_eq!(tale.broken(), [""; 0]);
    assert_eq!(tale.call(read(40).done_as(1)).broken(), ["C1"]);
}

#[test]
fn pinned_client_may_find_record_being_deleted() {
    let read = |at| calls(1, 1).pinned().reads(Cached).from(at);
    let tale = Tale::of_one_record().call(calls(2, 2).deletes().from(3).to(50).gone());
    let tale = tale.call(read(4).gone()).call(read(10).done_as(1));
    assert_eq!(tale.broken(), [""; 0]);
    assert_eq!(tale.call(read(20).gone()).call(read(30).done_as(1)).broken(), ["C1"]);
}

#[test]
fn moved_client_without_token_may_read_older() {
    let read = |node, at| calls(1, node).reads(Cached).from(at);
    let tale = Tale::written_until(4).call(read(1, 60).done_as(4));
    assert_eq!(tale.call(read(2, 70).done_as(3)).broken(), [""; 0]);
}

#[test]
fn a_read_below_its_token_is_caught() {
    let read = |version| calls(1, 1).reads(AtLeast(3)).from(60).done_as(version);
    assert_eq!(Tale::written_until(4).call(read(3)).broken(), [""; 0]);
    assert_eq!(Tale::written_until(4).call(read(4)).broken(), [""; 0]);
    assert_eq!(Tale::written_until(4).call(read(2)).broken(), ["C1"]);
}

#[test]
fn read_behind_own_write_on_same_node_is_caught() {
    let tale = Tale::written_until(4).call(calls(1, 1).updates(50).from(60).done_as(5));
    let read = |node, version| calls(1, node).reads(Cached).from(70).done_as(version);
    assert_eq!(tale.clone().call(read(1, 5)).broken(), [""; 0]);
    assert_eq!(tale.clone().call(read(2, 4)).broken(), [""; 0], "another node need not know yet");
    assert_eq!(tale.call(read(1, 4)).broken(), ["C2"]);
}

#[test]
fn read_behind_own_write_despite_token_is_caught() {
    let tale = Tale::written_until(4).call(calls(1, 1).updates(50).from(60).done_as(5));
    let read = |token, version| calls(1, 2).reads(AtLeast(token)).from(70).done_as(version);
    assert_eq!(tale.clone().call(read(5, 5)).broken(), [""; 0]);
    assert_eq!(tale.clone().call(read(4, 4)).broken(), [""; 0], "the token is older than the write");
    assert_eq!(tale.call(read(5, 4)).broken(), ["C1", "C2"]);
}

#[test]
fn read_of_own_deletion_on_same_node_is_caught() {
    let tale = Tale::of_one_record().call(calls(1, 1).deletes().from(20).gone());
    let read = calls(1, 1).reads(Cached).from(30);
    assert_eq!(tale.clone().call(read.clone().gone()).broken(), [""; 0]);
    assert_eq!(tale.call(read.done_as(1)).broken(), ["C2"]);
}
