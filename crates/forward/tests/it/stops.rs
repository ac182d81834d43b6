//! When a forwarder stops by itself.

use kith_forward::{Settings, SourceError, StopReason};

use crate::{
    receiver::{Reaction, TestReceiver},
    source::MemorySource,
    stage::{MemoryState, Running, settings, to},
};

async fn stops(
    source: &MemorySource,
    reaction: Reaction,
    state: &MemoryState,
    settings: Settings,
) -> StopReason {
    let receiver = TestReceiver::start(move |_| reaction.clone()).await;
    let running = Running::start(source, to(&receiver), state, settings);
    running.stopped().await
}

#[tokio::test]
async fn gone_stops_at_once() {
    let state = MemoryState::new();
    let reason = stops(&MemorySource::with(["7"]), Reaction::Status(410), &state, settings()).await;
    assert_eq!(reason, StopReason::Gone);
    assert_eq!(state.saved().stopped, Some(reason.to_string()));
    assert_eq!((state.saved().cursor.as_str(), state.parked().len()), ("0", 0));
}

#[tokio::test]
async fn refusals_of_20_records_stop() {
    let state = MemoryState::new();
    let reason = stops(&MemorySource::with(0..100), Reaction::Status(404), &state, settings()).await;
    assert_eq!(reason, StopReason::Alike { status: 404, records: 20 });
    assert_eq!(state.saved().cursor, "0");
    assert!((20..40).contains(&state.parked().len()));
}

#[tokio::test]
async fn other_statuses_between_do_not_stop() {
    for (between, parked) in [(403, 30), (200, 29)] {
        let state = MemoryState::new();
        let receiver = TestReceiver::start(move |request| {
            Reaction::Status(if request.id().ends_with(".15.0") { between } else { 404 })
        })
        .await;
        let settings = Settings { in_flight: 1, ..settings() };
        let running = Running::start(&MemorySource::with(0..30), to(&receiver), &state, settings);
        crate::stage::until("all are finished", || state.saved().cursor == "30").await;
        running.stop().await;
        assert_eq!(state.parked().len(), parked);
    }
}

#[tokio::test]
async fn full_park_stops() {
    let state = MemoryState::new();
    let settings = Settings { parked: 5, tries: 1, ..settings() };
    let reason = stops(&MemorySource::with(0..9), Reaction::Status(500), &state, settings).await;
    assert_eq!(reason, StopReason::ParkedFull(5));
    assert_eq!((state.parked().len(), state.saved().cursor.as_str()), (5, "0"));
}

#[tokio::test]
async fn source_that_refuses_stops() {
    let (source, state) = (MemorySource::with(["7"]), MemoryState::new());
    source.fail_next([SourceError::Refused("the cursor has expired".to_owned())]);
    let reason = stops(&source, Reaction::Status(200), &state, settings()).await;
    assert_eq!(reason, StopReason::Source("the cursor has expired".to_owned()));
}

#[tokio::test]
async fn state_that_cannot_be_saved_stops() {
    let state = MemoryState::new();
    state.0.lock().is_full = true;
    let reason = stops(&MemorySource::with(["7"]), Reaction::Status(200), &state, settings()).await;
    assert!(matches!(reason, StopReason::State(_)), "{reason:?}");
}
