use kith_lab::history::{
    CopyPlace::{Memory, Redis, Store},
    Level::Cached,
};

use crate::builder::{HistoryBuilder, SOUND, assert_judged, calls};

const C5: &[&str] = &["C5"];
const C6: &[&str] = &["C6"];
const C7: &[&str] = &["C7"];

fn written() -> HistoryBuilder {
    HistoryBuilder::written_until(3)
}

/// A record that was deleted.
fn deleted() -> HistoryBuilder {
    HistoryBuilder::of_one_record().call(calls(1, 1).deletes().from(50).gone()).holds(Store, None, true)
}

#[test]
fn store_holds_the_last_acknowledged_write() {
    let other = calls(1, 1).key("name:bob").creates("bob", 77).from(50).made("user:2", 77);
    let open = || written().fault("away", 50, 60).call(calls(1, 1).updates(77).from(50).open());
    assert_judged([
        ("the last", SOUND, written().held(Store, 3, 30)),
        ("one before", C5, written().held(Store, 2, 20)),
        ("the last version with another value", C5, written().held(Store, 3, 20)),
        ("it does not exist", C5, written().holds(Store, None, true)),
        ("nothing is known of it", C5, written().holds(Store, None, false)),
        ("another record is not in the dump", C5, written().held(Store, 3, 30).call(other)),
        ("without an open write", SOUND, open().held(Store, 3, 30)),
        ("with an open write", SOUND, open().held(Store, 4, 77)),
        ("with a value that no client wrote", C5, open().held(Store, 4, 78)),
    ]);
}

#[test]
fn history_without_dump_reports_no_losses() {
    let report = written().report();
    let lost = report.checks.iter().find(|check| check.name.starts_with("C5")).unwrap();
    assert_eq!((lost.judged, lost.holds()), (0, true));
    assert!(report.to_string().contains("nothing judged"));
}

#[test]
fn deleted_record_is_gone_at_the_end() {
    let deleted = || written().call(calls(1, 1).deletes().from(50).gone());
    let open = || written().fault("away", 50, 60).call(calls(1, 1).deletes().from(50).open());
    assert_judged([
        ("gone", SOUND, deleted().holds(Store, Some((4, None)), true)),
        ("still there", C5, deleted().held(Store, 3, 30)),
        ("gone after an open deletion", SOUND, open().holds(Store, None, true)),
        ("still there after an open deletion", SOUND, open().held(Store, 3, 30)),
    ]);
}

#[test]
fn unanswered_creation_is_found_by_its_value() {
    let create = calls(1, 1).key("name:ada").creates("ada", 77).from(10).open();
    let created = HistoryBuilder::default().fault("away", 10, 20).call(create);
    let read = created.clone().call(calls(1, 1).from(40).done(1, 77));
    let again = calls(1, 1).key("user:2").from(50).done(1, 77);
    assert_judged([
        ("never seen", SOUND, created.clone()),
        ("in the store", SOUND, created.held(Store, 1, 77)),
        ("read, and in the store", SOUND, read.clone().held(Store, 1, 77)),
        ("read of two records", C6, read.call(again)),
    ]);
}

#[test]
fn every_copy_must_equal_store_or_be_absent() {
    let history = || written().held(Store, 3, 30);
    let same = history().held(Redis, 3, 30).held(Memory(1), 3, 30);
    let same = same.holds(Memory(2), None, false).holds(Memory(3), Some((3, None)), false);
    let gone = history().holds(Memory(2), None, true);
    let violation = gone.report().checks[6].violations[0].clone();
    assert!(violation.contains("the memory of node 2 has no record, the store has value 30"), "{violation}");
    assert_judged([
        ("the same or nothing", SOUND, same),
        ("an older version", C7, history().held(Redis, 2, 20)),
        ("another value", C7, history().held(Memory(1), 3, 31)),
        ("gone", C7, gone),
        ("gone as in the store", SOUND, deleted().holds(Redis, Some((2, None)), true)),
        ("a copy of a record that is gone", C7, deleted().held(Redis, 1, 10)),
        ("its version alone", C7, deleted().holds(Redis, Some((1, None)), false)),
    ]);
}

#[test]
fn copy_with_only_a_version_must_have_the_last() {
    let of = |version| written().held(Store, 3, 30).holds(Memory(1), Some((version, None)), false);
    assert_eq!((of(3).failed_checks(), of(3).report().checks[6].judged), (vec![], 1));
    assert_eq!((of(2).failed_checks(), of(4).failed_checks()), (vec!["C7"], vec!["C7"]));
    let violation = of(2).report().checks[6].violations[0].clone();
    assert!(violation.contains("the memory of node 1 has version 2, the store has value 30"), "{violation}");
}

#[test]
fn read_values_were_written_there() {
    let read = |version, value| written().call(calls(1, 1).reads(Cached).from(40).done(version, value));
    let other = calls(2, 2).key("name:bob").creates("bob", 77).from(20).made("user:2", 77);
    let two = || HistoryBuilder::of_one_record().call(other.clone());
    let open =
        HistoryBuilder::of_one_record().fault("away", 20, 30).call(calls(2, 2).updates(20).from(20).open());
    let open = open.call(calls(1, 1).from(40).done(2, 20));
    assert_judged([
        ("a written value", SOUND, read(3, 30)),
        ("a value that was never written", C6, read(3, 31)),
        ("a value of the record", SOUND, two().call(calls(1, 1).key("user:2").from(30).done(1, 77))),
        ("a value of another record", C6, two().call(calls(1, 1).from(30).done(1, 77))),
        ("an open write", SOUND, open.clone()),
        ("an open write as two versions", C6, open.call(calls(1, 1).from(50).done(3, 20))),
    ]);
}

#[test]
fn phantom_says_why_it_is_one() {
    let refused = written().call(calls(2, 2).updates(40).from(35).refused("ABORTED"));
    for (history, why) in [
        (written().call(calls(1, 1).reads(Cached).from(40).done(3, 20)), "which is version 2"),
        (refused.call(calls(1, 1).reads(Cached).from(40).done_as(4)), "whose write was refused"),
    ] {
        assert_eq!(history.failed_checks(), ["C6"], "{why}");
        assert!(history.report().checks[5].violations[0].ends_with(why), "{why}");
    }
}
