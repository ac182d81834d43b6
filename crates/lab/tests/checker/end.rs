use kith_lab::history::{
    Level::Cached,
    Place::{Memory, Redis, Store},
};

use crate::tale::{Tale, calls};

#[test]
fn store_must_hold_last_acknowledged_write() {
    assert_eq!(Tale::written_until(3).held(Store, 3, 30).broken(), [""; 0]);
    assert_eq!(Tale::written_until(3).held(Store, 2, 20).broken(), ["C5"]);
}

#[test]
fn acknowledged_record_absent_in_store_is_lost() {
    assert_eq!(Tale::written_until(3).holds(Store, None, true).broken(), ["C5"]);
    assert_eq!(Tale::written_until(3).holds(Store, None, false).broken(), ["C5"]);
}

#[test]
fn record_missing_from_store_dump_is_lost() {
    let other = calls(1, 1).key("name:bob").creates("bob", 77).from(50).made("user:2", 77);
    assert_eq!(Tale::written_until(3).held(Store, 3, 30).call(other).broken(), ["C5"]);
}

#[test]
fn history_without_dump_reports_no_losses() {
    let report = Tale::written_until(3).report();
    let lost = report.checks.iter().find(|check| check.name.starts_with("C5")).unwrap();
    assert_eq!((lost.looked_at, lost.holds()), (0, true));
    assert!(report.to_string().contains("nothing to see"));
}

#[test]
fn an_open_write_may_be_the_last_one() {
    let tale = Tale::written_until(3).fault("away", 50, 60).call(calls(1, 1).updates(77).from(50).open());
    assert_eq!(tale.clone().held(Store, 3, 30).broken(), [""; 0]);
    assert_eq!(tale.clone().held(Store, 4, 77).broken(), [""; 0]);
    assert_eq!(tale.held(Store, 4, 78).broken(), ["C5"], "nobody wrote it");
}

#[test]
fn last_version_with_wrong_value_is_caught() {
    assert_eq!(Tale::written_until(3).held(Store, 3, 20).broken(), ["C5"]);
}

#[test]
fn a_record_that_was_deleted_has_to_be_gone() {
    let tale = Tale::written_until(3).call(calls(1, 1).deletes().from(50).gone());
    assert_eq!(tale.clone().holds(Store, Some((4, None)), true).broken(), [""; 0]);
    assert_eq!(tale.held(Store, 3, 30).broken(), ["C5"]);
}

#[test]
fn record_with_open_deletion_may_be_gone_or_not() {
    let tale = Tale::written_until(3).fault("away", 50, 60).call(calls(1, 1).deletes().from(50).open());
    assert_eq!(tale.clone().holds(Store, None, true).broken(), [""; 0]);
    assert_eq!(tale.held(Store, 3, 30).broken(), [""; 0]);
}

#[test]
fn unanswered_creation_is_found_by_its_value() {
    let create = calls(1, 1).key("name:ada").creates("ada", 77).from(10).open();
    let tale = Tale::default().fault("away", 10, 20).call(create);
    assert_eq!(tale.clone().broken(), [""; 0]);
    assert_eq!(tale.clone().held(Store, 1, 77).broken(), [""; 0]);
    let tale = tale.call(calls(1, 1).from(40).done(1, 77));
    assert_eq!(tale.clone().held(Store, 1, 77).broken(), [""; 0]);
    assert_eq!(
        tale.call(calls(1, 1).key("user:2").from(50).done(1, 77)).broken(),
        ["C6"],
        "it made one record"
    );
}

#[test]
fn every_copy_must_equal_store_or_be_absent() {
    let tale = Tale::written_until(3).held(Store, 3, 30);
    let same = tale.clone().held(Redis, 3, 30).held(Memory(1), 3, 30);
    let same = same.holds(Memory(2), None, false).holds(Memory(3), Some((3, None)), false);
    assert_eq!(same.broken(), [""; 0]);
    assert_eq!(tale.clone().held(Redis, 2, 20).broken(), ["C7"]);
    assert_eq!(tale.clone().held(Memory(1), 3, 31).broken(), ["C7"]);
    let gone = tale.holds(Memory(2), None, true);
    assert_eq!(gone.broken(), ["C7"]);
    let violation = gone.report().checks[6].violations[0].clone();
    assert!(violation.contains("the memory of node 2 has no record, the store has value 30"), "{violation}");
}

#[test]
fn copy_with_only_a_version_must_have_the_last() {
    let tale = Tale::written_until(3).held(Store, 3, 30);
    let of = |version| tale.clone().holds(Memory(1), Some((version, None)), false);
    assert_eq!((of(3).broken(), of(3).report().checks[6].looked_at), (vec![], 1));
    assert_eq!((of(2).broken(), of(4).broken()), (vec!["C7"], vec!["C7"]));
    let violation = of(2).report().checks[6].violations[0].clone();
    assert!(violation.contains("the memory of node 1 has version 2, the store has value 30"), "{violation}");
    let gone = Tale::of_one_record().call(calls(1, 1).deletes().from(50).gone()).holds(Store, None, true);
    assert_eq!(gone.holds(Redis, Some((1, None)), false).broken(), ["C7"]);
}

#[test]
fn a_copy_of_a_record_that_is_gone_is_caught() {
    let tale = Tale::of_one_record().call(calls(1, 1).deletes().from(50).gone()).holds(Store, None, true);
    assert_eq!(tale.clone().holds(Redis, Some((2, None)), true).broken(), [""; 0]);
    assert_eq!(tale.held(Redis, 1, 10).broken(), ["C7"]);
}

#[test]
fn a_value_that_was_never_written_is_a_phantom() {
    let read = |version, value| calls(1, 1).reads(Cached).from(40).done(version, value);
    assert_eq!(Tale::written_until(3).call(read(3, 30)).broken(), [""; 0]);
    assert_eq!(Tale::written_until(3).call(read(3, 31)).broken(), ["C6"]);
}

#[test]
fn value_with_version_of_other_write_is_phantom() {
    let read = calls(1, 1).reads(Cached).from(40).done(3, 20);
    let tale = Tale::written_until(3).call(read);
    assert_eq!(tale.broken(), ["C6"]);
    assert!(tale.report().checks[5].violations[0].ends_with("which is version 2"));
}

#[test]
fn a_value_whose_write_was_refused_is_a_phantom() {
    let tale = Tale::written_until(3).call(calls(2, 2).updates(40).from(35).refused("ABORTED"));
    let tale = tale.call(calls(1, 1).reads(Cached).from(40).done_as(4));
    assert_eq!(tale.broken(), ["C6"]);
    assert!(tale.report().checks[5].violations[0].ends_with("whose write was refused"));
}

#[test]
fn a_value_of_another_record_is_a_phantom() {
    let other = calls(2, 2).key("name:bob").creates("bob", 77).from(20).made("user:2", 77);
    let tale = Tale::of_one_record().call(other);
    assert_eq!(tale.clone().call(calls(1, 1).key("user:2").from(30).done(1, 77)).broken(), [""; 0]);
    assert_eq!(tale.call(calls(1, 1).from(30).done(1, 77)).broken(), ["C6"]);
}

#[test]
fn open_write_read_as_two_versions_is_caught() {
    let tale = Tale::of_one_record().fault("away", 20, 30).call(calls(2, 2).updates(20).from(20).open());
    let tale = tale.call(calls(1, 1).from(40).done(2, 20));
    assert_eq!(tale.clone().broken(), [""; 0]);
    assert_eq!(tale.call(calls(1, 1).from(50).done(3, 20)).broken(), ["C6"]);
}
