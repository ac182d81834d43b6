//! The order in which the steps around a write run, and what follows when a step fails; time is virtual.

use kith_store::{ContentChange, MessageKey, Recalled, RecalledBy, Timestamp};

use super::{
    super::super::{
        sample::{group, message, mutations},
        steps::{StepFault, StepRecorder, outcome_is_unknown},
    },
    *,
};

/// Recalls a message, and returns the steps from two minutes, and the error.
async fn recalled(fault: Option<StepFault>) -> (Vec<(u64, &'static str)>, Option<Error>) {
    let steps = StepRecorder::new(fault);
    let writer = ChangeWriter { logs: steps.logs(), mutations: mutations() };
    let recall = ContentChange::Recall(Recalled { by: RecalledBy::Service, time: Timestamp(7) });
    let event = NewMessage { key: MessageKey::of_recall(5), ..message("event", 1) };
    let change = MessageChange { seq: 5, content: recall, event };
    let error = writer.change(group(9), change).await.err();
    sleep(Duration::from_secs(120)).await;
    (steps.take(), error)
}

const AGAIN: [(u64, &str); 6] =
    [(5, "hold"), (5, "release"), (30, "hold"), (30, "release"), (90, "hold"), (90, "release")];

#[tokio::test(start_paused = true)]
async fn window_is_held_around_the_write() {
    let (steps, error) = recalled(None).await;
    assert_eq!(steps, ["hold", "write", "release", "append"].map(|step| (0, step)));
    assert_eq!(error, None);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_without_a_hold() {
    let (steps, error) = recalled(Some(StepFault::Hold)).await;
    assert_eq!(steps, [(0, "hold")]);
    assert!(!outcome_is_unknown(error.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn hold_ends_with_a_write_that_was_refused() {
    let (steps, error) = recalled(Some(StepFault::NotWritten)).await;
    assert_eq!(steps, ["hold", "write", "release"].map(|step| (0, step)));
    assert!(!outcome_is_unknown(error.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn write_of_unknown_outcome_is_held_again() {
    let (steps, error) = recalled(Some(StepFault::PerhapsWritten)).await;
    assert_eq!(steps, [&[(0, "hold"), (0, "write")][..], &AGAIN].concat());
    assert!(outcome_is_unknown(error.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn unreleased_change_is_not_acknowledged() {
    let (steps, error) = recalled(Some(StepFault::Release)).await;
    assert_eq!(steps, [&[(0, "hold"), (0, "write"), (0, "release")][..], &AGAIN].concat());
    assert!(outcome_is_unknown(error.unwrap()));
}
