//! Events arrive, in the order of each record.

use std::collections::HashMap;

use serde_json::json;

use crate::{
    receiver::{Reaction, TestReceiver},
    source::MemorySource,
    stage::{MemoryState, Running, settings, to, until},
};

#[tokio::test]
async fn event_has_form_key_and_record() {
    let source = MemorySource::with(["7"]);
    source.remove("8");
    let (receiver, state) = (TestReceiver::start(|_| Reaction::Status(200)).await, MemoryState::new());
    let running = Running::start(&source, to(&receiver), &state, settings());
    receiver.until(2).await;
    until("the place is saved", || state.saved().cursor == "2").await;
    running.stop().await;
    let mut requests = receiver.requests.lock().clone();
    requests.sort_by_key(super::receiver::Request::id);
    let body = requests[0].json();
    assert_eq!(body["type"], "user.changed");
    assert_eq!(body["position"], "1.a.0.0");
    assert_eq!(body["data"], json!({"key": {"userId": "7"}, "record": 1}));
    assert!(body["timestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(requests[1].json()["data"], json!({"key": {"userId": "8"}, "record": null}));
    assert!(requests[0].head.starts_with("post /hook http/1.1\r\n"), "{}", requests[0].head);
    assert_eq!(requests[0].header("content-type"), "application/json");
}

#[tokio::test]
async fn order_of_a_record_holds_despite_failures() {
    let source = MemorySource::default();
    for round in 0..20 {
        (0..25).for_each(|record| source.change(&format!("{}", (record * 7 + round) % 25)));
    }
    let (receiver, state) = (
        TestReceiver::start(|request| match request.body.len() % 3 {
            0 if rand::random_bool(0.3) => Reaction::Close,
            _ if rand::random_bool(0.3) => Reaction::Status(503),
            _ => Reaction::Status(200),
        })
        .await,
        MemoryState::new(),
    );
    let settings = kith_forward::Settings { page: 30, unfinished: 120, tries: 100, ..settings() };
    let running = Running::start(&source, to(&receiver), &state, settings);
    until("all is delivered", || state.saved().cursor == "500").await;
    running.stop().await;
    let mut last: HashMap<String, (u64, String)> = HashMap::new();
    for request in receiver.requests.lock().iter() {
        let (body, id) = (request.json(), request.id());
        let place: u64 = id.split('.').nth(2).unwrap().parse().unwrap();
        let now = (place, body["timestamp"].as_str().unwrap().to_owned());
        let before = last.insert(body["data"]["key"]["userId"].to_string(), now.clone());
        if let Some(before) = before {
            assert!(before.0 <= now.0 && before.1 <= now.1, "{before:?} before {now:?}");
        }
    }
    assert_eq!(last.len(), 25);
}
