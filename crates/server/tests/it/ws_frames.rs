//! The frames that a socket sends, and their order.

use std::time::Duration;

use kith_proto::message::v1::{Conversation, Message, Missed, NoticeTotals, delivery::What};
use kith_service::error::{Error, Reason};
use serde_json::{Value, json};
use tonic::Status;

use crate::{
    edge::{
        ServedEdge, serve_with,
        service::{FINE, HELD},
        until,
    },
    sockets::{
        Socket,
        messages::{FakeMessages, live_response, message, reset, response},
        on,
    },
};

async fn node(fake: &FakeMessages) -> ServedEdge {
    serve_with(on, |routes| routes.add_service(fake.clone())).await
}

/// Returns the names of the frames up to and including `live`.
async fn names(socket: &mut Socket) -> Vec<String> {
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "live") {
        let frame = socket.next().await;
        names.push(
            frame
                .as_object()
                .unwrap()
                .keys()
                .find(|name| *name != "cursor" && *name != "more")
                .unwrap()
                .clone(),
        );
    }
    names
}

#[tokio::test]
async fn conversations_come_first_and_live_comes_last() {
    let fake = FakeMessages::new();
    let missed = Missed { conversation_id: "g9".into(), from_seq: 1, to_seq: 2 };
    fake.meanwhile(vec![message("d7-8", 4, "c-1"), response(What::Missed(missed), "c-2")]);
    let node = node(&fake).await;
    let mut socket = Socket::greeted(node.address, &json!({"user": 7})).await;
    let names = names(&mut socket).await;
    assert_eq!(names, ["welcome", "conversations", "conversations", "message", "missed", "live"]);
    assert!(fake.requests()[0].now && fake.acting() == ["7"], "{:?}", fake.requests());
}

#[tokio::test]
async fn live_comes_also_where_more_is_always_there() {
    let fake = FakeMessages::new();
    fake.meanwhile((1..=300).map(|seq| message("d7-8", seq, "c-1")).collect());
    let node = node(&fake).await;
    let mut socket = Socket::greeted(node.address, &json!({"user": 7})).await;
    let before = names(&mut socket).await.len();
    assert!((50..250).contains(&before), "{before} frames before it");
}

#[tokio::test]
async fn conversation_pages_say_whether_more_follow() {
    let node = node(&FakeMessages::new()).await;
    let mut socket = Socket::greeted(node.address, &json!({"user": 7})).await;
    let welcome = socket.next().await;
    assert_eq!((&welcome["welcome"]["userId"], &welcome["welcome"]["calls"]), (&json!("7"), &json!(8)));
    let (first, last) = (socket.next().await, socket.next().await);
    assert_eq!(first, json!({"conversations": [{"conversationId": "d7-8", "maxSeq": "3"}], "more": true}));
    assert_eq!(last, json!({"conversations": [{"conversationId": "g9", "maxSeq": "3"}], "more": false}));
}

#[tokio::test]
async fn welcome_says_durations_in_seconds() {
    for (period, expected) in [(Duration::from_secs(90), "90s"), (Duration::from_millis(2_500), "2.5s")] {
        let change = |config: &mut kith_server::config::Config| {
            on(config);
            config.ws.ping_every = period;
        };
        let node = serve_with(change, |routes| routes.add_service(FakeMessages::new())).await;
        let mut socket = Socket::greeted(node.address, &json!({"user": 7})).await;
        assert_eq!(socket.until("welcome").await["welcome"]["pingEvery"], expected);
    }
}

#[tokio::test]
async fn conversation_frames_stay_below_1_mib() {
    let fake = FakeMessages::new();
    let large = |at: i64| Conversation {
        conversation_id: format!("g{at}"),
        last_message: Some(Message { body: vec![7; 60_000].into(), seq: 1, ..Default::default() }),
        ..Default::default()
    };
    fake.list_first((1..=40).map(large).collect());
    let node = node(&fake).await;
    let mut socket = Socket::greeted(node.address, &json!({"user": 7})).await;
    let mut listed = Vec::new();
    loop {
        let text = socket.next_text().await;
        assert!(text.len() < 1 << 20, "a frame of {} bytes", text.len());
        let frame: Value = serde_json::from_str(&text).unwrap();
        let Some(page) = frame["conversations"].as_array() else { continue };
        listed.extend(page.iter().map(|one| one["conversationId"].as_str().unwrap().to_owned()));
        if frame["more"] == false {
            break;
        }
    }
    let expected: Vec<_> = (1..=40).chain([9]).map(|at| format!("g{at}")).collect();
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn live_frame_has_the_last_cursor() {
    let fake = FakeMessages::new();
    fake.meanwhile(vec![message("d7-8", 4, "c-1")]);
    let node = node(&fake).await;
    let mut socket = Socket::greeted(node.address, &json!({"user": 7, "list": false})).await;
    assert_eq!(
        socket.until("live").await,
        json!({"live": true, "cursor": "c-0"}),
        "without a list nothing was read"
    );
    fake.say(Ok(message("d7-8", 5, "c-2")));
    let frame = socket.next().await;
    assert_eq!((&frame["cursor"], &frame["message"]["seq"]), (&json!("c-2"), &json!("5")));
}

#[tokio::test]
async fn cursor_and_positions_are_passed_on() {
    let fake = FakeMessages::new();
    let node = node(&fake).await;
    let mut socket = Socket::greeted(
        node.address,
        &json!({"user": 7, "cursor": "c-9", "positions": {"d7-8": 3, "g9": "4"}}),
    )
    .await;
    socket.until("live").await;
    let request = fake.requests().remove(0);
    assert_eq!((request.cursor.as_str(), request.now), ("c-9", false));
    let positions: Vec<_> =
        request.positions.iter().map(|at| (at.conversation_id.as_str(), at.seq)).collect();
    assert_eq!(positions, [("d7-8", 3), ("g9", 4)]);
}

#[tokio::test]
async fn audiences_survive_a_reopened_stream() {
    let fake = FakeMessages::new();
    let node = node(&fake).await;
    let mut socket = Socket::greeted(node.address, &json!({"user": 7, "noticeAudiences": [2, 1]})).await;
    socket.until("live").await;
    let totals = NoticeTotals { audience_id: 2, unread: 3, ..Default::default() };
    fake.say(Ok(response(What::NoticeTotals(totals), "c-1")));
    let frame = socket.until("noticeTotals").await;
    assert_eq!(frame, json!({"noticeTotals": {"audienceId": 2, "unread": 3}, "cursor": "c-1"}));
    fake.begin_with(vec![live_response("c-1")]);
    fake.say(Err(Status::from(Error::deadline())));
    until("the stream is opened again", || fake.requests().len() == 2).await;
    let requests = fake.requests();
    assert!(requests.iter().all(|request| request.notice_audiences == [2, 1]), "{requests:?}");
}

#[tokio::test]
async fn after_a_reset_the_same_user_says_hello_again() {
    let fake = FakeMessages::new();
    let node = node(&fake).await;
    let mut socket = Socket::live(node.address, 7).await;
    fake.say(Ok(reset()));
    assert_eq!(socket.next().await, json!({"reset": true}));
    let answer = socket.call("GetUser", &json!({"userId": FINE})).await;
    assert_eq!(answer["answer"], json!({}), "calls go on meanwhile");
    socket.send(&json!({"hello": {"user": 7, "positions": {"d7-8": 3}}})).await;
    assert_eq!(names(&mut socket).await, ["welcome", "conversations", "conversations", "live"]);
    fake.say(Ok(reset()));
    socket.until("reset").await;
    socket.send(&json!({"hello": {"user": 8}})).await;
    assert_eq!(socket.closed().await.0, 1008, "another user is another socket");
}

#[tokio::test]
async fn aged_stream_resumes_after_the_last_cursor() {
    let fake = FakeMessages::new();
    let node = node(&fake).await;
    let mut socket = Socket::live(node.address, 7).await;
    fake.say(Ok(message("d7-8", 4, "c-1")));
    socket.until("message").await;
    fake.begin_with(vec![live_response("c-1")]);
    fake.say(Err(Status::from(Error::deadline())));
    until("the stream is opened again", || fake.requests().len() == 2).await;
    assert_eq!((fake.requests()[1].cursor.as_str(), fake.requests()[1].now), ("c-1", false));
    fake.say(Ok(message("d7-8", 5, "c-2")));
    assert_eq!(socket.until("message").await["message"]["seq"], "5");
}

#[tokio::test]
async fn stream_that_ends_without_a_cursor_is_reset() {
    let fake = FakeMessages::new();
    fake.begin_with(vec![live_response("")]);
    let node = node(&fake).await;
    let mut socket = Socket::live(node.address, 7).await;
    fake.say(Err(Status::from(Error::deadline())));
    assert_eq!(socket.next().await, json!({"reset": true}));
}

#[tokio::test]
async fn stream_that_fails_says_why_and_closes() {
    for (reason, code) in [
        (Reason::StoreUnavailable, 1013),
        (Reason::NotFound, 1008),
        (Reason::Internal, 1011),
        (Reason::Stopping, 1001),
    ] {
        let fake = FakeMessages::new();
        let node = node(&fake).await;
        let mut socket = Socket::live(node.address, 7).await;
        fake.say(Err(Error::new(reason, "as the test says").into()));
        socket.assert_closed(code, reason.name()).await;
    }
}

#[tokio::test]
async fn stream_ends_with_its_socket() {
    let fake = FakeMessages::new();
    let node = node(&fake).await;
    let socket = Socket::live(node.address, 7).await;
    assert_eq!(fake.open(), 1);
    drop(socket);
    until("the stream has no reader", || fake.open() == 0).await;
    node.assert_healthy().await;
}

#[tokio::test]
async fn calls_act_for_the_user_of_the_socket() {
    let node = node(&FakeMessages::new()).await;
    let mut socket = Socket::live(node.address, 7).await;
    let answer = socket.call("SendMessage", &json!({"userId": 8, "senderId": 8})).await;
    assert_eq!(
        answer["answer"],
        json!({"seq": "7"}),
        "the service of the tests answers with the acting user"
    );
}

#[tokio::test]
async fn ninth_call_is_read_when_one_has_ended() {
    let node = node(&FakeMessages::new()).await;
    let mut socket = Socket::live(node.address, 7).await;
    for id in 1..=9 {
        socket.send(&json!({"id": id, "call": "GetUser", "body": {"userId": HELD}})).await;
    }
    until("eight are with their handler", || node.seen.calls() == 8).await;
    // The ninth call has time to arrive, if it was read.
    node.assert_healthy().await;
    assert_eq!(node.seen.calls(), 9, "the one of the look at the health");
    node.seen.release(1);
    socket.until("answer").await;
    until("the ninth is with its handler", || node.seen.calls() == 10).await;
}

#[tokio::test]
async fn calls_of_a_socket_that_goes_are_cancelled() {
    let node = node(&FakeMessages::new()).await;
    let mut socket = Socket::live(node.address, 7).await;
    socket.send(&json!({"id": 1, "call": "GetUser", "body": {"userId": HELD}})).await;
    until("the call is with its handler", || node.edge.in_flight() == 1).await;
    drop(socket);
    until("its place is free", || node.edge.in_flight() == 0).await;
}

#[tokio::test]
async fn node_that_stops_closes_its_sockets() {
    let node = node(&FakeMessages::new()).await;
    let mut sockets = [Socket::live(node.address, 7).await, Socket::open(node.address).await];
    assert!(node.connections.open() >= 2);
    let connections = node.connections.clone();
    let closed = tokio::spawn(async move { connections.close(Duration::from_secs(10)).await });
    for socket in &mut sockets {
        assert_eq!(socket.closed().await.0, 1001);
    }
    assert!(closed.await.unwrap(), "nothing was left behind");
    assert_eq!(node.connections.open(), 0);
}
