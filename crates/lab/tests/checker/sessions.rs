use kith_lab::history::Level::{AtLeast, Cached};

use crate::tale::{Tale, calls};

#[test]
fn a_pinned_client_may_read_an_old_version_again_and_then_a_newer_one() {
    let tale = Tale::written_until(4);
    let read = |at, version| calls(1, 1).pinned().reads(Cached).from(at).done_as(version);
    assert_eq!(tale.call(read(60, 3)).call(read(70, 3)).call(read(80, 4)).broken(), [""; 0]);
}

#[test]
fn a_pinned_client_that_reads_an_older_version_than_before_is_caught() {
    let tale = Tale::written_until(4);
    let read = |at, version| calls(1, 1).pinned().reads(Cached).from(at).done_as(version);
    let tale = tale.call(read(60, 4)).call(read(70, 3));
    assert_eq!(tale.broken(), ["C1"]);
    let violation = &tale.report().checks[0].violations[0];
    assert!(violation.starts_with("user:1: client 1 on node 1 read version 3"), "{violation}");
}

#[test]
fn a_pinned_client_that_finds_no_record_after_it_read_one_is_caught() {
    let read = |at| calls(1, 1).pinned().reads(Cached).from(at);
    assert_eq!(Tale::of_one_record().call(read(20).done_as(1)).call(read(30).gone()).broken(), ["C1"]);
}

#[test]
fn a_pinned_client_that_reads_a_deleted_record_again_is_caught() {
    let read = |at| calls(1, 1).pinned().reads(Cached).from(at);
    let tale = Tale::of_one_record().call(read(20).done_as(1)).call(calls(2, 2).deletes().from(25).gone());
    let tale = tale.call(read(30).gone());
    assert_eq!(tale.broken(), [""; 0]);
    assert_eq!(tale.call(read(40).done_as(1)).broken(), ["C1"]);
}

#[test]
fn a_pinned_client_may_learn_of_a_record_late_also_when_its_deletion_is_under_way() {
    let read = |at| calls(1, 1).pinned().reads(Cached).from(at);
    let tale = Tale::of_one_record().call(calls(2, 2).deletes().from(3).to(50).gone());
    let tale = tale.call(read(4).gone()).call(read(10).done_as(1));
    assert_eq!(tale.broken(), [""; 0]);
    assert_eq!(tale.call(read(20).gone()).call(read(30).done_as(1)).broken(), ["C1"]);
}

#[test]
fn a_client_that_moves_between_nodes_may_read_an_older_version_without_a_token() {
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
fn a_client_that_reads_less_than_it_wrote_on_the_same_node_is_caught() {
    let tale = Tale::written_until(4).call(calls(1, 1).updates(50).from(60).done_as(5));
    let read = |node, version| calls(1, node).reads(Cached).from(70).done_as(version);
    assert_eq!(tale.clone().call(read(1, 5)).broken(), [""; 0]);
    assert_eq!(tale.clone().call(read(2, 4)).broken(), [""; 0], "another node need not know yet");
    assert_eq!(tale.call(read(1, 4)).broken(), ["C2"]);
}

#[test]
fn a_client_that_reads_less_than_it_wrote_on_another_node_with_a_token_is_caught() {
    let tale = Tale::written_until(4).call(calls(1, 1).updates(50).from(60).done_as(5));
    let read = |token, version| calls(1, 2).reads(AtLeast(token)).from(70).done_as(version);
    assert_eq!(tale.clone().call(read(5, 5)).broken(), [""; 0]);
    assert_eq!(tale.clone().call(read(4, 4)).broken(), [""; 0], "the token is older than the write");
    assert_eq!(tale.call(read(5, 4)).broken(), ["C1", "C2"]);
}

#[test]
fn a_client_that_reads_what_it_deleted_on_the_same_node_is_caught() {
    let tale = Tale::of_one_record().call(calls(1, 1).deletes().from(20).gone());
    let read = calls(1, 1).reads(Cached).from(30);
    assert_eq!(tale.clone().call(read.clone().gone()).broken(), [""; 0]);
    assert_eq!(tale.call(read.done_as(1)).broken(), ["C2"]);
}
