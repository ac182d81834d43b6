use kith_lab::history::Level::Cached;

use crate::tale::{Tale, calls};

#[test]
fn strong_reads_during_write_may_find_it_or_not() {
    let tale = Tale::of_one_record().call(calls(2, 2).updates(20).from(20).to(40).done_as(2));
    let tale = tale.call(calls(1, 1).from(22).to(23).done_as(1)).call(calls(1, 1).from(25).to(26).done_as(2));
    assert_eq!(tale.broken(), [""; 0]);
}

#[test]
fn strong_read_that_misses_write_is_caught() {
    assert_eq!(Tale::written_until(2).call(calls(1, 1).from(22).done_as(1)).broken(), ["C4"]);
}

#[test]
fn strong_reads_that_go_back_are_caught() {
    let tale = Tale::of_one_record().call(calls(2, 2).updates(20).from(20).to(40).done_as(2));
    let tale = tale.call(calls(1, 1).from(22).to(23).done_as(2)).call(calls(3, 3).from(25).to(26).done_as(1));
    assert_eq!(tale.broken(), ["C4"]);
}

#[test]
fn strong_read_older_than_memory_read_is_caught() {
    let tale = Tale::of_one_record().call(calls(2, 2).updates(20).from(20).to(40).done_as(2));
    let tale = tale.call(calls(1, 1).reads(Cached).from(22).to(23).done_as(2));
    assert_eq!(tale.call(calls(3, 3).from(25).to(26).done_as(1)).broken(), ["C4"]);
}

#[test]
fn read_of_a_later_write_is_caught() {
    let read = calls(1, 1).reads(Cached).from(15).to(16).done_as(2);
    let tale = Tale::written_until(2).call(read);
    assert!(tale.broken().contains(&"C4"), "{:?}", tale.broken());
}

#[test]
fn open_write_may_take_effect_much_later() {
    let tale =
        Tale::of_one_record().fault("away", 20, 30).call(calls(2, 2).updates(20).from(20).to(25).open());
    let tale = tale.call(calls(1, 1).from(100).done_as(1)).call(calls(1, 1).from(200).done_as(2));
    assert_eq!(tale.clone().broken(), [""; 0]);
    assert_eq!(tale.call(calls(1, 1).from(300).done_as(1)).broken(), ["C4"], "once seen it stays");
}

#[test]
fn an_open_write_may_fill_a_missing_version() {
    let tale =
        Tale::of_one_record().fault("away", 20, 30).call(calls(2, 2).updates(20).from(20).to(25).open());
    assert_eq!(tale.call(calls(3, 3).updates(30).from(40).done_as(3)).broken(), [""; 0]);
}

#[test]
fn version_gap_without_possible_write_is_caught() {
    let tale = Tale::of_one_record().call(calls(3, 3).updates(30).from(40).done_as(3));
    assert_eq!(tale.broken(), ["C4"]);
    let too_late = calls(2, 2).updates(20).from(50).to(55).open();
    assert_eq!(
        tale.fault("away", 50, 60).call(too_late).broken(),
        ["C4"],
        "it began after version 3 was told"
    );
}

#[test]
fn versions_below_the_first_shown_one_need_writes() {
    let update = |version: u64| calls(2, 2).updates(10 * version).from(40);
    let creation = calls(9, 9).key("name:ada").from(1).creates("ada", 10).open();
    let tale = Tale::default().fault("away", 1, 30).call(creation);
    assert_eq!(tale.clone().call(update(2).done_as(2)).broken(), [""; 0], "the creation made the first");
    assert_eq!(tale.clone().call(update(3).done_as(3)).broken(), ["C4"]);
    let open = calls(3, 3).updates(20).from(20).open();
    assert_eq!(tale.call(open).call(update(3).done_as(3)).broken(), [""; 0]);
}

#[test]
fn one_open_write_fills_one_missing_version() {
    let tale =
        Tale::of_one_record().fault("away", 20, 30).call(calls(2, 2).updates(20).from(20).to(25).open());
    assert_eq!(tale.call(calls(3, 3).updates(40).from(40).done_as(4)).broken(), ["C4"]);
}

#[test]
fn a_huge_version_costs_no_time() {
    let tale = Tale::of_one_record().call(calls(3, 3).updates(7).from(40).done(u64::MAX - 1, 7));
    assert_eq!(tale.broken(), ["C4"]);
}

#[test]
fn two_writes_of_one_version_are_caught() {
    let tale = Tale::written_until(2).call(calls(2, 2).updates(77).from(15).to(30).done(2, 77));
    assert_eq!(tale.broken(), ["C4"]);
}

#[test]
fn versions_against_order_of_writes_are_caught() {
    let tale = Tale::of_one_record().call(calls(2, 2).updates(30).from(20).done_as(3));
    assert_eq!(tale.call(calls(2, 2).updates(20).from(30).done_as(2)).broken(), ["C4"]);
}

#[test]
fn record_in_creation_may_be_found_or_not() {
    let tale = Tale::default().call(calls(2, 2).from(0).to(9).creates("ada", 10).done(1, 10));
    let tale = tale.call(calls(1, 1).from(3).gone()).call(calls(1, 1).from(5).done_as(1));
    assert_eq!(tale.clone().broken(), [""; 0]);
    assert_eq!(tale.call(calls(1, 1).from(7).gone()).broken(), ["C4"], "and then it stays");
}

#[test]
fn missing_record_without_deletion_is_caught() {
    assert_eq!(Tale::of_one_record().call(calls(1, 1).from(20).gone()).broken(), ["C4"]);
    assert_eq!(Tale::of_one_record().call(calls(1, 1).updates(20).from(20).gone()).broken(), ["C4"]);
}

#[test]
fn a_deleted_record_stays_deleted() {
    let tale = Tale::of_one_record().call(calls(2, 2).deletes().from(20).gone());
    let tale = tale.call(calls(1, 1).from(30).gone()).call(calls(1, 1).updates(20).from(40).gone());
    let tale = tale.call(calls(3, 3).deletes().from(45).gone());
    assert_eq!(tale.clone().broken(), [""; 0]);
    assert_eq!(tale.clone().call(calls(1, 1).from(50).done_as(1)).broken(), ["C4"]);
    assert_eq!(tale.call(calls(1, 1).updates(20).from(50).done_as(2)).broken(), ["C4"]);
}

#[test]
fn an_open_deletion_may_have_happened_or_not() {
    let tale = Tale::of_one_record().fault("away", 20, 30).call(calls(2, 2).deletes().from(20).open());
    let tale = tale.call(calls(1, 1).from(40).done_as(1)).call(calls(1, 1).from(50).gone());
    assert_eq!(tale.clone().broken(), [""; 0]);
    assert_eq!(tale.call(calls(1, 1).from(60).done_as(1)).broken(), ["C4"]);
}
