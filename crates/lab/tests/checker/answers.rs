use kith_lab::history::{Call, Level, Outcome};

use crate::builder::{CallBuilder, HistoryBuilder, SOUND, assert_judged, calls};

const C16: &[&str] = &["C16"];
const C17: &[&str] = &["C17"];

/// An update with a request id.
fn update(from: u64, value: u64) -> CallBuilder {
    calls(1, 1).updates(value).with_id("r1").from(from)
}

/// A creation with a request id.
fn create(from: u64) -> CallBuilder {
    calls(1, 1).key("name:eve").creates("eve", 77).with_id("r1").from(from)
}

#[test]
fn requests_have_one_effect_and_one_answer() {
    let record = HistoryBuilder::of_one_record;
    let retried = record().fault("away", 10, 20).call(update(10, 20).open());
    let retried = retried.call(update(30, 20).done_as(2)).call(update(40, 20).done_as(2));
    let twice = record().call(update(30, 20).done(2, 20)).call(update(40, 20).done(3, 20));
    let different = record().call(update(30, 20).done_as(2)).call(update(40, 30).done_as(3));
    let made = || HistoryBuilder::default().fault("away", 10, 20).call(create(10).made("user:7", 77));
    let other = calls(2, 2).key("name:eve").creates("eve", 66).from(5).made("user:6", 66);
    let refused = HistoryBuilder::default().call(other).call(create(10).refused("ALREADY_EXISTS"));
    let freed = refused.call(calls(2, 2).key("user:6").deletes().from(15).gone());
    assert_judged([
        ("retried and answered as before", SOUND, retried),
        ("two effects", C16, twice),
        ("two different calls", C16, different),
        ("a creation retried", SOUND, made().call(create(20).made("user:7", 77))),
        ("a creation of two records", &["C8", "C16"], made().call(create(20).made("user:8", 77))),
        ("refused for the cluster after it was done", SOUND, made().call(create(20).refused("UNAVAILABLE"))),
        ("refused for the request after it was done", C16, made().call(create(20).refused("ALREADY_EXISTS"))),
        ("done after its refusal", SOUND, freed.call(create(20).made("user:7", 77))),
    ]);
}

#[test]
fn codes_of_a_bug_are_never_allowed() {
    for code in ["INTERNAL", "UNKNOWN", "DATA_LOSS"] {
        let history = HistoryBuilder::of_one_record().fault("away", 10, 100);
        assert_eq!(history.clone().call(calls(1, 1).from(20).refused(code)).failed_checks(), ["C17"]);
        let open = Outcome::Open(code.to_owned());
        assert_eq!(history.call(calls(1, 1).updates(20).from(20).ends(open)).failed_checks(), ["C17"]);
    }
}

#[test]
fn codes_of_a_disturbance_need_one() {
    for code in ["RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"] {
        let call = calls(1, 1).from(200).refused(code);
        assert_eq!(HistoryBuilder::default().call(call.clone()).failed_checks(), ["C17"]);
        assert_eq!(
            HistoryBuilder::default().fault("away", 150, 190).call(call.clone()).failed_checks(),
            [""; 0]
        );
        assert_eq!(HistoryBuilder::default().fault("away", 202, 300).call(call).failed_checks(), ["C17"]);
    }
}

#[test]
fn an_answer_has_to_be_one_of_such_a_call() {
    let record = |call: Call| HistoryBuilder::of_one_record().call(call);
    let create = || calls(1, 1).key("name:ada").creates("ada", 77).from(20);
    let update = || calls(1, 1).updates(20).from(20);
    let read = calls(1, 1).reads(Level::Strong).from(20);
    assert_judged([
        ("a creation of a taken name", SOUND, record(create().refused("ALREADY_EXISTS"))),
        ("a creation of nothing", C17, record(create().refused("NOT_FOUND"))),
        ("a creation that finds nothing", C17, HistoryBuilder::default().call(create().gone())),
        ("a read of a taken name", C17, record(calls(1, 1).from(20).refused("ALREADY_EXISTS"))),
        ("a read that finds nothing", SOUND, HistoryBuilder::default().call(read.gone())),
        ("an aborted update", SOUND, record(update().refused("ABORTED"))),
        ("an invalid update", C17, record(update().refused("INVALID_ARGUMENT"))),
    ]);
    assert!(
        HistoryBuilder::of_one_record()
            .call(calls(1, 1).deletes().from(20).done(2, 10))
            .failed_checks()
            .contains(&"C17")
    );
}
