//! The order of sends on one socket.

use std::time::Duration;

use kith_proto::message::v1::SendMessageResponse;
use kith_service::error::{Error, Reason};
use serde_json::{Value, json};

use crate::{
    edge::{ServedEdge, serve_with, service::FINE, until},
    message_calls::direct,
    node::TestNode,
    relation_calls::node_with_users,
    sockets::{Socket, messages::FakeMessages, on},
};

async fn node(fake: &FakeMessages, deadline: Duration) -> ServedEdge {
    let change = |config: &mut kith_server::config::Config| {
        on(config);
        config.limits.deadline_default = deadline;
    };
    serve_with(change, |routes| routes.add_service(fake.clone())).await
}

/// Sends this to the named conversation. The send's name is its client id.
async fn send(socket: &mut Socket, id: u64, name: &str, to: &Value) {
    let mut body = to.clone();
    body["clientMessageId"] = name.into();
    socket.send(&json!({"id": id, "call": "SendMessage", "body": body})).await;
}

fn stored(seq: i64) -> SendMessageResponse {
    SendMessageResponse { seq, ..Default::default() }
}

#[tokio::test]
async fn sends_to_one_conversation_keep_their_order() {
    let fake = FakeMessages::new();
    let node = node(&fake, Duration::from_secs(10)).await;
    let mut socket = Socket::live(node.address, 7).await;
    fake.hold_sends();
    let to_user = [
        json!({"conversationId": "d7-8"}),
        json!({"userId": 8}),
        json!({"conversation_id": "d7-8", "senderId": "7"}),
        json!({"user_id": "8"}),
    ];
    for (id, (name, to)) in (1..).zip(["a", "b", "c", "d"].iter().zip(&to_user)) {
        send(&mut socket, id, name, to).await;
    }
    for (id, (name, to)) in
        (5..).zip([("e", json!({"groupId": 9})), ("f", json!({"conversationId": "g9"}))].iter())
    {
        send(&mut socket, id, name, to).await;
    }
    assert_eq!(
        socket.call("GetUser", &json!({"userId": FINE})).await["answer"],
        json!({}),
        "other calls pass"
    );
    until("the first send of each has begun", || fake.sent().len() >= 2).await;
    let answered = async |socket: &mut Socket, id: u64, field: &str| {
        let frame = socket.until("id").await;
        assert_eq!(frame["id"], id, "{frame}");
        assert!(frame.get(field).is_some(), "{frame}");
    };
    fake.release_send("a", Err(Error::new(Reason::StoreUnavailable, "as the test says").into()));
    answered(&mut socket, 1, "error").await;
    until("a failed send is followed by the next", || fake.sent().len() >= 3).await;
    for (id, name, begun) in [(2, "b", 4), (3, "c", 5), (4, "d", 5), (5, "e", 6), (6, "f", 6)] {
        fake.release_send(name, Ok(stored(1)));
        answered(&mut socket, id, "answer").await;
        until("the next send has begun", || fake.sent().len() >= begun).await;
        assert_eq!(fake.sent().len(), begun, "only the next one: {:?}", fake.sent());
    }
    let sent = fake.sent();
    let of =
        |names: &str| sent.iter().filter(|name| names.contains(name.as_str())).cloned().collect::<String>();
    assert_eq!((of("abcd"), of("ef")), ("abcd".to_owned(), "ef".to_owned()));
}

#[tokio::test]
async fn deadline_of_a_send_begins_with_its_turn() {
    let fake = FakeMessages::new();
    let node = node(&fake, Duration::from_millis(500)).await;
    let mut socket = Socket::live(node.address, 7).await;
    fake.hold_sends();
    send(&mut socket, 1, "a", &json!({"userId": 8})).await;
    send(&mut socket, 2, "b", &json!({"userId": 8})).await;
    let first = socket.until("id").await;
    assert_eq!((&first["id"], &first["error"]["reason"]), (&json!(1), &json!("DEADLINE_EXCEEDED")));
    until("the next send has begun", || fake.sent() == ["a", "b"]).await;
    fake.release_send("b", Ok(stored(4)));
    let second = socket.until("id").await;
    assert_eq!(second, json!({"id": 2, "answer": {"seq": "4"}}));
}

#[tokio::test]
async fn waiting_send_ends_with_its_socket() {
    let fake = FakeMessages::new();
    let node = node(&fake, Duration::from_secs(10)).await;
    let mut socket = Socket::live(node.address, 7).await;
    fake.hold_sends();
    send(&mut socket, 1, "a", &json!({"userId": 8})).await;
    send(&mut socket, 2, "b", &json!({"userId": 8})).await;
    until("the first send has begun", || fake.sent() == ["a"]).await;
    drop(socket);
    until("its place is free", || node.edge.in_flight() == 0).await;
    assert_eq!(fake.sent(), ["a"], "its answer would reach no client");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn burst_is_stored_in_frame_order() {
    let (node, [ann, bea]): (TestNode, _) = node_with_users(on).await;
    let mut socket = Socket::live(node.address, ann).await;
    for burst in 0..8_i64 {
        let to = [json!({"userId": bea}), json!({"conversationId": direct(ann, bea)})];
        for at in 0..5_usize {
            let mut body = to[at % 2].clone();
            body["contentType"] = "text/plain".into();
            body["body"] = "aGk=".into();
            socket.send(&json!({"id": at, "call": "SendMessage", "body": body})).await;
        }
        let mut answers = Vec::new();
        while answers.len() < 5 {
            let frame = socket.until("id").await;
            let seq: i64 = frame["answer"]["seq"].as_str().expect("an answer").parse().unwrap();
            answers.push((frame["id"].as_i64().unwrap(), seq));
        }
        let expected: Vec<_> = (0..5).map(|at| (at, burst * 5 + at + 1)).collect();
        assert_eq!(answers, expected);
    }
}
