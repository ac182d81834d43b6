//! A failed event is tried again, or its record is parked with the reason.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use kith_forward::{METRICS, RetryRequest, Settings, SourceError};

use crate::{
    receiver::{Reaction, TestReceiver},
    source::MemorySource,
    stage::{MemoryState, Running, settings, to, until},
};

/// Each of these is followed by 200.
#[tokio::test]
async fn event_arrives_after_each_failure() {
    for reaction in [
        Reaction::Status(500),
        Reaction::Status(503),
        Reaction::Status(408),
        Reaction::With(429, "retry-after: 0"),
        Reaction::With(503, "retry-after: Fri, 31 Dec 1999 23:59:59 GMT"),
        Reaction::Hang,
        Reaction::Close,
        Reaction::CloseInHead,
        Reaction::Noise,
    ] {
        let (calls, failure) = (AtomicUsize::new(0), reaction.clone());
        let react = move |_: &_| match calls.fetch_add(1, Relaxed) {
            // A kept connection is none here: the first request is the first on its connection.
            0 => failure.clone(),
            _ => Reaction::Status(200),
        };
        let (receiver, state) = (TestReceiver::start(react).await, MemoryState::new());
        let running = Running::start(&MemorySource::with(["7"]), to(&receiver), &state, settings());
        until(&format!("{reaction:?}"), || state.saved().cursor == "1").await;
        assert_eq!((state.parked(), receiver.ids()), (vec![], vec!["1.a.0.0".to_owned(); 2]), "{reaction:?}");
        assert_eq!(running.progress.values()[..2], ["1", "1"], "{reaction:?}");
        running.stop().await;
    }
}

/// 2xx is the receiver's word, whatever follows it.
#[tokio::test]
async fn success_counts_whatever_follows() {
    for reaction in [Reaction::Endless, Reaction::CutBody, Reaction::OkAndClose, Reaction::Status(204)] {
        let said = reaction.clone();
        let (receiver, state) = (TestReceiver::start(move |_| said.clone()).await, MemoryState::new());
        let source = MemorySource::with(["7", "8", "7"]);
        let running = Running::start(&source, to(&receiver), &state, settings());
        until(&format!("{reaction:?}"), || state.saved().cursor == "3").await;
        running.stop().await;
        assert_eq!((state.parked(), receiver.ids().len()), (vec![], 3), "{reaction:?}");
    }
}

#[tokio::test]
async fn receiver_decides_how_long_to_wait() {
    let calls = AtomicUsize::new(0);
    let react = move |_: &_| match calls.fetch_add(1, Relaxed) {
        0 => Reaction::With(429, "retry-after: 3600"),
        _ => Reaction::Status(200),
    };
    let (receiver, state) = (TestReceiver::start(react).await, MemoryState::new());
    let settings = Settings { longest_wait: Duration::from_secs(3600), ..settings() };
    let running = Running::start(&MemorySource::with(["7"]), to(&receiver), &state, settings);
    receiver.until(1).await;
    running.stop().await;
    assert_eq!(
        (receiver.ids().len(), state.saved().cursor.as_str()),
        (1, "0"),
        "it waits, until it is stopped"
    );
}

#[tokio::test]
async fn refused_record_is_parked_at_once() {
    for (reaction, reason) in [
        (Reaction::Status(404), "the receiver answers 404"),
        (
            Reaction::With(302, "location: http://127.0.0.1:1/"),
            "the receiver answers 302, and redirects are not followed",
        ),
    ] {
        let react =
            move |request: &crate::receiver::Request| match request.json()["data"]["key"]["userId"] == "8" {
                true => reaction.clone(),
                false => Reaction::Status(200),
            };
        let (receiver, state) = (TestReceiver::start(react).await, MemoryState::new());
        let running = Running::start(&MemorySource::with(["7", "8", "9"]), to(&receiver), &state, settings());
        until("all is done", || state.saved().cursor == "3").await;
        assert_eq!(state.parked(), [("8".to_owned(), reason.to_owned())]);
        assert_eq!((receiver.ids().len(), running.progress.values()[3].as_str()), (3, "1"));
        running.stop().await;
    }
}

#[tokio::test]
async fn record_is_parked_after_ten_tries() {
    let react = |request: &crate::receiver::Request| match request.json()["data"]["key"]["userId"] == "8" {
        true => Reaction::Status(500),
        false => Reaction::Status(200),
    };
    let (receiver, state) = (TestReceiver::start(react).await, MemoryState::new());
    let source = MemorySource::with(["8", "8", "9"]);
    let running = Running::start(&source, to(&receiver), &state, settings());
    until("all is done", || state.saved().cursor == "3").await;
    assert_eq!(state.parked(), [("8".to_owned(), "the receiver answers 500".to_owned())]);
    assert_eq!(state.saved().parked[0].change.position, "1.a.1.0");
    assert_eq!(receiver.ids().len(), 21, "ten tries of two changes, and one of another record");
    running.stop().await;
}

#[tokio::test]
async fn later_delivery_clears_a_parked_record() {
    let calls = AtomicUsize::new(0);
    let react = move |_: &_| Reaction::Status(if calls.fetch_add(1, Relaxed) == 0 { 400 } else { 200 });
    let (receiver, state) = (TestReceiver::start(react).await, MemoryState::new());
    let source = MemorySource::with(["8"]);
    let running = Running::start(&source, to(&receiver), &state, settings());
    until("it is parked", || state.parked().len() == 1).await;
    source.change("8");
    until("it is cleared", || state.saved().cursor == "2" && state.parked().is_empty()).await;
    running.stop().await;
}

#[tokio::test]
async fn retry_sends_the_present_state() {
    let calls = AtomicUsize::new(0);
    let react = move |_: &_| Reaction::Status(if calls.fetch_add(1, Relaxed) < 3 { 400 } else { 200 });
    let (receiver, state) = (TestReceiver::start(react).await, MemoryState::new());
    let source = MemorySource::with(["7", "8", "9"]);
    let running = Running::start(&source, to(&receiver), &state, settings());
    until("all are parked", || state.parked().len() == 3).await;
    state.0.lock().retry = Some(RetryRequest::Records(vec!["8".to_owned(), "unknown".to_owned()]));
    until("one is sent", || state.parked().len() == 2).await;
    state.0.lock().retry = Some(RetryRequest::All);
    until("all are sent", || state.parked().is_empty()).await;
    running.stop().await;
    assert_eq!((receiver.ids().len(), state.saved().cursor.as_str()), (6, "3"));
    assert_eq!(receiver.requests.lock()[3].json()["data"]["record"], 1);
}

#[tokio::test]
async fn failing_record_does_not_hold_up_others() {
    let react = |request: &crate::receiver::Request| match request.json()["data"]["key"]["userId"] == "bad" {
        true => Reaction::Status(500),
        false => Reaction::Status(200),
    };
    let (receiver, state) = (TestReceiver::start(react).await, MemoryState::new());
    let source = MemorySource::with(["bad"]);
    let settings = Settings { tries: u32::MAX, page: 5, unfinished: 30, ..settings() };
    let running = Running::start(&source, to(&receiver), &state, settings);
    (0..100).for_each(|record| source.change(&record.to_string()));
    until("the others arrive", || running.progress.values()[0] == "100").await;
    assert_eq!(state.saved().cursor, "0", "the place is never behind an unfinished change");
    running.stop().await;
}

#[tokio::test]
async fn source_that_is_away_is_asked_again() {
    let source = MemorySource::with(["7"]);
    source.fail_next((0..30).map(|_| SourceError::Away("the node is away".to_owned())));
    let (receiver, state) = (TestReceiver::start(|_| Reaction::Status(200)).await, MemoryState::new());
    let running = Running::start(&source, to(&receiver), &state, settings());
    until("it arrives", || state.saved().cursor == "1").await;
    running.stop().await;
}

#[tokio::test]
async fn unreadable_record_is_parked() {
    let source = MemorySource::with(["7", "8"]);
    source.break_record("7");
    let (receiver, state) = (TestReceiver::start(|_| Reaction::Status(200)).await, MemoryState::new());
    let running = Running::start(&source, to(&receiver), &state, settings());
    until("all is done", || state.saved().cursor == "2").await;
    assert_eq!(state.parked(), [("7".to_owned(), "the node answers Internal".to_owned())]);
    let value = |name| {
        METRICS.iter().position(|metric| metric.name == name).map(|at| running.progress.values()[at].clone())
    };
    assert_eq!(value("kith_forward_parked").as_deref(), Some("1"));
    running.stop().await;
}

#[tokio::test]
async fn unfinished_changes_have_a_bound() {
    let (receiver, state) = (TestReceiver::start(|_| Reaction::Status(503)).await, MemoryState::new());
    let source = MemorySource::with(0..600);
    let settings = Settings { page: 20, unfinished: 80, tries: u32::MAX, ..settings() };
    let running = Running::start(&source, to(&receiver), &state, settings);
    receiver.until(400).await;
    running.kill().await;
    assert_eq!(source.read(), 80);
}

/// A lag is the time since the forwarder had caught up.
#[tokio::test]
async fn caught_up_is_all_read_and_finished() {
    for (status, cursor) in [(503, "0"), (200, "20")] {
        let (receiver, state) =
            (TestReceiver::start(move |_| Reaction::Status(status)).await, MemoryState::new());
        state.0.lock().saved.caught_up = 1;
        let source = MemorySource::with(0..20);
        if status == 200 {
            (20..40).for_each(|record| source.change(&record.to_string()));
            source.answer_to(20);
        }
        let settings = Settings { page: 20, tries: u32::MAX, ..settings() };
        let running = Running::start(&source, to(&receiver), &state, settings);
        receiver.until(20).await;
        until("the place is saved", || state.saved().cursor == cursor).await;
        running.stop().await;
        assert_eq!(state.saved().caught_up, 1, "{status}");
    }
}
