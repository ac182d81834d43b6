use kith_lab::history::{Level, Outcome};

use crate::tale::{Tale, calls};

#[test]
fn retried_request_is_answered_as_before() {
    let update = |from| calls(1, 1).updates(20).with_id("r1").from(from);
    let tale = Tale::of_one_record().fault("away", 10, 20).call(update(10).open());
    let tale = tale.call(update(30).done_as(2)).call(update(40).done_as(2));
    assert_eq!(tale.broken(), [""; 0]);
}

#[test]
fn a_request_that_had_two_effects_is_caught() {
    let update = |from| calls(1, 1).updates(20).with_id("r1").from(from);
    let tale = Tale::of_one_record().call(update(30).done(2, 20)).call(update(40).done(3, 20));
    assert_eq!(tale.broken(), ["C16"]);
}

#[test]
fn retried_creation_of_two_records_is_caught() {
    let create = |from| calls(1, 1).key("name:eve").creates("eve", 77).with_id("r1").from(from);
    let tale = Tale::default().call(create(10).made("user:7", 77));
    assert_eq!(tale.clone().call(create(20).made("user:7", 77)).broken(), [""; 0]);
    assert_eq!(tale.call(create(20).made("user:8", 77)).broken(), ["C8", "C16"]);
}

#[test]
fn request_refused_after_it_was_done_is_caught() {
    let create = |from| calls(1, 1).key("name:eve").creates("eve", 77).with_id("r1").from(from);
    let tale = Tale::default().fault("away", 10, 20).call(create(10).made("user:7", 77));
    assert_eq!(tale.clone().call(create(20).refused("UNAVAILABLE")).broken(), [""; 0]);
    assert_eq!(tale.call(create(20).refused("ALREADY_EXISTS")).broken(), ["C16"]);
}

#[test]
fn request_done_after_its_refusal_is_sound() {
    let create = |from| calls(1, 1).key("name:eve").creates("eve", 77).with_id("r1").from(from);
    let other = calls(2, 2).key("name:eve").creates("eve", 66).from(5).made("user:6", 66);
    let tale = Tale::default().call(other).call(create(10).refused("ALREADY_EXISTS"));
    let tale = tale.call(calls(2, 2).key("user:6").deletes().from(15).gone());
    assert_eq!(tale.call(create(20).made("user:7", 77)).broken(), [""; 0]);
}

#[test]
fn a_request_id_of_two_different_calls_is_caught() {
    let tale = Tale::of_one_record().call(calls(1, 1).updates(20).with_id("r1").from(30).done_as(2));
    assert_eq!(tale.call(calls(1, 1).updates(30).with_id("r1").from(40).done_as(3)).broken(), ["C16"]);
}

#[test]
fn codes_of_a_bug_are_never_allowed() {
    for code in ["INTERNAL", "UNKNOWN", "DATA_LOSS"] {
        let tale = Tale::of_one_record().fault("away", 10, 100);
        assert_eq!(tale.clone().call(calls(1, 1).from(20).refused(code)).broken(), ["C17"]);
        let open = Outcome::Open(code.to_owned());
        assert_eq!(tale.call(calls(1, 1).updates(20).from(20).ends(open)).broken(), ["C17"]);
    }
}

#[test]
fn codes_of_a_disturbance_need_one() {
    for code in ["RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"] {
        let call = calls(1, 1).from(200).refused(code);
        assert_eq!(Tale::default().call(call.clone()).broken(), ["C17"]);
        assert_eq!(Tale::default().fault("away", 150, 190).call(call.clone()).broken(), [""; 0]);
        assert_eq!(Tale::default().fault("away", 202, 300).call(call).broken(), ["C17"]);
    }
}

#[test]
fn a_refusal_has_to_be_one_of_such_a_call() {
    let create = || calls(1, 1).key("name:ada").creates("ada", 77).from(20);
    let tale = Tale::of_one_record();
    assert_eq!(tale.clone().call(create().refused("ALREADY_EXISTS")).broken(), [""; 0]);
    assert_eq!(tale.clone().call(create().refused("NOT_FOUND")).broken(), ["C17"]);
    assert_eq!(tale.clone().call(calls(1, 1).from(20).refused("ALREADY_EXISTS")).broken(), ["C17"]);
    assert_eq!(tale.clone().call(calls(1, 1).updates(20).from(20).refused("ABORTED")).broken(), [""; 0]);
    assert_eq!(tale.call(calls(1, 1).updates(20).from(20).refused("INVALID_ARGUMENT")).broken(), ["C17"]);
}

#[test]
fn an_answer_has_to_be_one_of_such_a_call() {
    let tale = Tale::default();
    let create = calls(1, 1).key("name:ada").creates("ada", 77).from(20).gone();
    assert_eq!(tale.clone().call(create).broken(), ["C17"]);
    let level = Level::Strong;
    assert_eq!(tale.clone().call(calls(1, 1).reads(level).from(20).gone()).broken(), [""; 0]);
    assert!(Tale::of_one_record().call(calls(1, 1).deletes().from(20).done(2, 10)).broken().contains(&"C17"));
}
