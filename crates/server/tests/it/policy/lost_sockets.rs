//! Sockets whose peers are lost: users are named for what they were sent, and others get their places.

use std::time::Duration;

use crate::dialog_calls::mark_up_to;
use crate::group_calls::chat_with_id;
use crate::message_calls::*;
use crate::message_streams::live;
use crate::node::{TestNode, until};
use crate::relation_calls::node_with_users;
use crate::sockets::{Socket, on};
use kith_proto::message::v1::{send_message_request::To, *};
use kith_server::config::Config;
use serde_json::json;
use tonic::Streaming;

const PATIENCE: Duration = Duration::from_secs(30);

/// A node that notices within a second that a peer does not answer.
async fn node<const N: usize>(change: impl FnOnce(&mut Config)) -> (TestNode, [i64; N]) {
    node_with_users(|config| {
        on(config);
        config.messages.offline = true;
        config.ws.ping_every = Duration::from_millis(400);
        change(config);
    })
    .await
}

async fn pushes(node: &TestNode) -> Streaming<WatchOfflineResponse> {
    let mut stream =
        node.messages().watch_offline(WatchOfflineRequest::default()).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert!(first.messages.is_empty());
    stream
}

/// Reads the next named users: the message's number, and the users.
async fn named(stream: &mut Streaming<WatchOfflineResponse>, count: usize) -> Vec<(i64, Vec<i64>)> {
    let mut named = Vec::new();
    while named.len() < count {
        let next = tokio::time::timeout(PATIENCE, stream.message()).await.expect("it comes in time");
        let messages = next.unwrap().expect("the stream goes on").messages;
        named.extend(messages.into_iter().map(|message| (message.seq, message.user_ids)));
    }
    named
}

/// Opens a user's socket, once it is no longer refused.
async fn accepted(node: &TestNode, user: i64) -> Socket {
    let mut accepted = None;
    until(async || {
        let mut socket = Socket::greeted(node.address, &json!({ "user": user })).await;
        let first = socket.next().await;
        let is_refused = first.get("error").is_some();
        assert!(!is_refused || first["error"]["reason"] == "TOO_MANY_RECEIVERS", "{first}");
        accepted = Some(socket).filter(|_| !is_refused);
        accepted.is_some()
    })
    .await;
    accepted.unwrap()
}

#[tokio::test]
async fn messages_of_a_lost_socket_are_named() {
    let (node, [ann, bea, cid]) = node(|_| {}).await;
    let (group, id) = chat_with_id(&node, ann, &[bea, cid]).await;
    let mut stream = pushes(&node).await;
    // A peer answers pings while it reads. This peer reads no more, and stays connected.
    let socket = Socket::live(node.address, bea).await;
    let read = say(&node, ann, To::GroupId(group), "read").await.unwrap();
    let unread = say(&node, ann, To::GroupId(group), "unread").await.unwrap();
    mark_up_to(&node, bea, &id, read).await;
    assert_eq!(named(&mut stream, 2).await, [(read, vec![cid]), (unread, vec![cid])], "it seems connected");
    assert_eq!(named(&mut stream, 1).await, [(unread, vec![bea])], "it was lost");
    let later = say(&node, ann, To::GroupId(group), "later").await.unwrap();
    assert_eq!(named(&mut stream, 1).await, [(later, vec![bea, cid])], "each once");
    drop(socket);
}

#[tokio::test]
async fn lost_socket_beside_a_stream_names_nothing() {
    let (node, [ann, bea]) = node(|config| config.messages.receivers_of_user = 2).await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    let mut stream = pushes(&node).await;
    let mut receiver = live(&node, bea).await;
    let socket = Socket::live(node.address, bea).await;
    let seq = say(&node, ann, To::GroupId(group), "x").await.unwrap();
    assert_eq!(receiver.seqs(&id, 1).await, [seq]);
    // The lost socket's place is free again.
    accepted(&node, bea).await.close().await;
    drop(receiver);
    let mut last = seq;
    // The node learns in the background that the user has no receiver.
    let first = loop {
        last += 1;
        assert_eq!(say(&node, ann, To::GroupId(group), "y").await.unwrap(), last);
        if let Ok(next) = tokio::time::timeout(Duration::from_millis(300), named(&mut stream, 1)).await {
            break next;
        }
    };
    assert!(first[0].0 > seq && first[0].1 == [bea], "{first:?}");
    drop(socket);
}

#[tokio::test]
async fn closed_socket_names_nothing() {
    let (node, [ann, bea]) = node(|_| {}).await;
    let (group, _) = chat_with_id(&node, ann, &[bea]).await;
    let mut stream = pushes(&node).await;
    let mut socket = Socket::live(node.address, bea).await;
    let seq = say(&node, ann, To::GroupId(group), "x").await.unwrap();
    socket.until("message").await;
    socket.close().await;
    let mut last = seq;
    let first = loop {
        last += 1;
        assert_eq!(say(&node, ann, To::GroupId(group), "y").await.unwrap(), last);
        if let Ok(next) = tokio::time::timeout(Duration::from_millis(300), named(&mut stream, 1)).await {
            break next;
        }
    };
    assert!(first[0].0 > seq, "the peer closed it, and had the first: {first:?}");
}

/// Returns the users that the node names if it notices a lost socket only by its stop: pings are far apart.
async fn named_after_stop(answers: bool, drain: Duration) -> Vec<(i64, Vec<i64>)> {
    let (node, [ann, bea]) = node(|config| {
        (config.ws.ping_every, config.drain) = (Duration::from_secs(100), drain);
    })
    .await;
    let (group, _) = chat_with_id(&node, ann, &[bea]).await;
    let mut pushes =
        node.messages().watch_offline(WatchOfflineRequest::default()).await.unwrap().into_inner();
    let cursor = pushes.message().await.unwrap().unwrap().cursor;
    let mut socket = Socket::live(node.address, bea).await;
    let seq = say(&node, ann, To::GroupId(group), "x").await.unwrap();
    assert_eq!(socket.until("message").await["message"]["seq"], seq.to_string());
    let data = if answers {
        let closed = async {
            socket.closed().await;
            socket.close().await;
        };
        tokio::join!(node.stop(), closed).0
    } else {
        node.stop().await
    };
    let node = TestNode::start_with(|config| {
        config.messages.offline = true;
        config.data_dir = data.path().join("data");
    })
    .await;
    let after = WatchOfflineRequest { cursor };
    let mut pushes = node.messages().watch_offline(after).await.unwrap().into_inner();
    let first = tokio::time::timeout(PATIENCE, pushes.message()).await.expect("it begins").unwrap().unwrap();
    first.messages.into_iter().map(|message| (message.seq, message.user_ids)).collect()
}

#[tokio::test]
async fn stop_names_for_silent_sockets() {
    let drain = Duration::from_secs(10);
    let (silent, closed) = tokio::join!(named_after_stop(false, drain), named_after_stop(true, drain));
    assert_eq!((silent.len(), silent[0].1.len()), (1, 1), "{silent:?}");
    assert_eq!(closed, [], "its peer closed it");
}

/// The node does not wait until the peers have answered.
#[tokio::test]
async fn stop_names_for_sockets_that_are_cut_off() {
    let named = named_after_stop(false, Duration::from_millis(100)).await;
    assert_eq!((named.len(), named[0].1.len()), (1, 1), "{named:?}");
}

#[tokio::test]
async fn resumed_backlog_is_not_named_again() {
    let (node, [ann, bea]) = node(|_| {}).await;
    let (group, _) = chat_with_id(&node, ann, &[bea]).await;
    let mut stream = pushes(&node).await;
    let cursor = live(&node, bea).await.cursor;
    // The node learns in the background that the user has no receiver.
    until(async || {
        say(&node, ann, To::GroupId(group), "before").await.unwrap();
        tokio::time::timeout(Duration::from_millis(300), named(&mut stream, 1)).await.is_ok()
    })
    .await;
    let mut socket = Socket::greeted(node.address, &json!({"user": bea, "cursor": cursor})).await;
    socket.until("live").await;
    let after = say(&node, ann, To::GroupId(group), "after").await.unwrap();
    assert_eq!(named(&mut stream, 1).await, [(after, vec![bea])], "its backlog was named before");
}
