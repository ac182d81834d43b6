//! A forwarder that is killed sends events again, and misses none.

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt as _, path::Path};

use kith_forward::{ForwardState as _, RetryRequest, SavedState, Settings, StateError, StateFile};

use crate::{
    receiver::{Reaction, TestReceiver},
    source::MemorySource,
    stage::{MemoryState, Running, settings, to, until},
};

#[tokio::test]
async fn killed_forwarder_misses_nothing() {
    let react = |_: &_| if rand::random_bool(0.1) { Reaction::Close } else { Reaction::Status(200) };
    let (receiver, state) = (TestReceiver::start(react).await, MemoryState::new());
    let (source, mut requests) = (MemorySource::with(0..600), 0);
    let settings = Settings { page: 20, unfinished: 80, ..settings() };
    while requests < 500 {
        let running = Running::start(&source, to(&receiver), &state, settings);
        requests += 50;
        receiver.until(requests).await;
        running.kill().await;
        requests = receiver.requests.lock().len();
        let place: usize = state.saved().cursor.parse().unwrap();
        let came: BTreeSet<_> = receiver.ids().into_iter().collect();
        (0..place)
            .for_each(|change| assert!(came.contains(&format!("1.a.{change}.0")), "{change} of {place}"));
    }
    let running = Running::start(&source, to(&receiver), &state, settings);
    until("all is delivered", || state.saved().cursor == "600").await;
    running.stop().await;
    assert_eq!(receiver.ids().into_iter().collect::<BTreeSet<_>>().len(), 600);
    assert_eq!(state.parked(), []);
}

#[tokio::test]
async fn stop_waits_for_requests_in_flight() {
    let (began, begun) = std::sync::mpsc::channel();
    let react = move |_: &_| {
        began.send(()).ok();
        Reaction::Hang
    };
    let (receiver, state) = (TestReceiver::start(react).await, MemoryState::new());
    let running = Running::start(&MemorySource::with(["7"]), to(&receiver), &state, settings());
    receiver.until(1).await;
    begun.recv().unwrap();
    running.stop().await;
    assert_eq!((receiver.ids().len(), state.saved().cursor.as_str()), (1, "0"));
}

#[tokio::test]
async fn timestamps_rise_over_restarts() {
    let (receiver, state) = (TestReceiver::start(|_| Reaction::Status(200)).await, MemoryState::new());
    // An hour ahead, as after a clock that was set back.
    let later = (std::time::SystemTime::now() + std::time::Duration::from_secs(3600))
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    state.0.lock().saved.last_event = u64::try_from(later.as_micros()).unwrap();
    let running = Running::start(&MemorySource::with(["7", "7"]), to(&receiver), &state, settings());
    until("all is delivered", || state.saved().cursor == "2").await;
    running.stop().await;
    assert_eq!(state.saved().last_event, u64::try_from(later.as_micros()).unwrap() + 2);
    let later = humantime::format_rfc3339_micros(std::time::UNIX_EPOCH + later).to_string();
    let requests = receiver.requests.lock();
    let sent = requests.iter().map(|request| request.json()["timestamp"].as_str().unwrap().to_owned());
    let times: Vec<_> = std::iter::once(later).chain(sent).collect();
    assert!(times.len() == 3 && times.is_sorted_by(|before, after| before < after), "{times:?}");
}

#[tokio::test]
async fn files_keep_state_and_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = StateFile::new(&folder.path().join("new"), "search").unwrap();
    let mut locked = file.clone().lock().unwrap();
    assert!(matches!(file.clone().lock(), Err(StateError::Held(_))));
    assert_eq!(file.read().unwrap(), None);
    let state = SavedState { cursor: "c".to_owned(), last_event: 7, ..SavedState::default() };
    locked.save(state.clone()).await.unwrap();
    assert_eq!(file.read().unwrap(), Some(state));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file.file()), mode(file.file().parent().unwrap())), (0o600, 0o700));
    assert_eq!(locked.take_retry().await.unwrap(), None);
    for request in [RetryRequest::All, RetryRequest::Records(vec!["user/7".to_owned()])] {
        file.ask_retry(&request).unwrap();
        assert_eq!(locked.take_retry().await.unwrap(), Some(request));
        assert_eq!(locked.take_retry().await.unwrap(), None);
    }
    drop(locked);
    assert!(file.clone().lock().is_ok());
    std::fs::write(file.file(), "{").unwrap();
    assert!(matches!(file.read(), Err(StateError::Malformed(_))));
    for name in ["", "Search", "a/b", "..", &"a".repeat(65)] {
        assert!(matches!(StateFile::new(folder.path(), name), Err(StateError::Name)), "{name}");
    }
}
