//! The order and the recipients of messages on a stream.

use std::time::Duration;

use crate::group_calls::{add, chat_with_id, group_with_history, remove};
use crate::message_calls::*;
use crate::message_streams::*;
use crate::node::{TestNode, assert_denied, assert_error, assert_invalid, assert_not_found};
use crate::relation_calls::{node_with_users, with_users};
use futures::future::join_all;
use kith_proto::message::v1::{
    delivery::What, event::What as Event, note::What as Noted, send_message_request::To, *,
};
use tonic::Code;

/// Starts a node whose calls may take long, with users: many messages are sent at once.
async fn patient<const N: usize>() -> (TestNode, [i64; N]) {
    node_with_users(|config| config.limits.deadline_default = Duration::from_secs(10)).await
}

#[tokio::test]
async fn message_reaches_every_device_of_both() {
    let (node, [ann, bea]) = with_users().await;
    let mut streams = [live(&node, ann).await, live(&node, ann).await, live(&node, bea).await];
    let sent = send(&node, ann, with_id(To::UserId(bea), "m1", "hello")).await.unwrap();
    for (at, stream) in streams.iter_mut().enumerate() {
        let message = stream.message().await;
        assert_eq!((message.conversation_id, message.seq), (direct(ann, bea), sent.seq));
        assert_eq!((message.sender_id, &message.body[..]), (ann, &b"hello"[..]));
        assert_eq!(message.client_message_id, if at < 2 { "m1" } else { "" }, "only its sender sees the id");
        assert!(!stream.cursor.is_empty());
    }
}

#[tokio::test]
async fn note_to_oneself_comes_once() {
    let (node, [ann, bea]) = with_users().await;
    let mut stream = live(&node, ann).await;
    say(&node, ann, To::UserId(ann), "milk").await.unwrap();
    say(&node, bea, To::UserId(ann), "hello").await.unwrap();
    assert_eq!(stream.places(2).await, [(direct(ann, ann), 1), (direct(ann, bea), 1)]);
}

#[tokio::test]
async fn messages_rise_and_come_once_under_load() {
    let (node, [ann, bea]) = patient().await;
    let id = direct(ann, bea);
    let mut streams = [live(&node, ann).await, live(&node, bea).await];
    let sends = (0..120).map(|at| {
        let (by, to) = if at % 2 == 0 { (ann, bea) } else { (bea, ann) };
        say(&node, by, To::UserId(to), "x")
    });
    assert!(join_all(sends).await.iter().all(Result::is_ok));
    for stream in &mut streams {
        assert_eq!(stream.seqs(&id, 120).await, (1..=120).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn removed_user_receives_nothing_after_it() {
    let (node, [ann, bea]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    let mut stream = live(&node, bea).await;
    say(&node, ann, To::GroupId(group), "one").await.unwrap();
    assert_eq!(stream.seqs(&id, 1).await, [2]);
    remove(&node, group, bea).await;
    say(&node, ann, To::GroupId(group), "two").await.unwrap();
    say(&node, ann, To::UserId(bea), "bye").await.unwrap();
    let left = What::Note(Note { what: Some(Noted::GroupLeft(GroupChanged { group_id: group })) });
    for what in [stream.next().await, stream.next().await] {
        let is_bye = matches!(&what, What::Message(message) if message.conversation_id == direct(ann, bea));
        assert!(is_bye || what == left, "{what:?}");
    }
}

#[tokio::test]
async fn new_member_receives_from_its_join_on() {
    let (node, [ann, bea]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[]).await;
    fill(&node, &id, 3).await;
    let mut stream = live(&node, bea).await;
    add(&node, group, &[bea]).await;
    let joined = What::Note(Note { what: Some(Noted::GroupJoined(GroupChanged { group_id: group })) });
    let both = [stream.next().await, stream.next().await];
    assert!(both.contains(&joined), "{both:?}");
    let event = both.into_iter().find_map(|what| match what {
        What::Message(message) => Some(message),
        _ => None,
    });
    let event = event.unwrap();
    assert_eq!(
        (event.seq, event.event.unwrap().what),
        (4, Some(Event::Joined(MembersJoined { user_ids: vec![bea] })))
    );
    say(&node, ann, To::GroupId(group), "welcome").await.unwrap();
    assert_eq!(stream.seqs(&id, 1).await, [5]);
}

#[tokio::test]
async fn new_member_does_not_receive_the_history() {
    let (node, [ann, bea]) = with_users().await;
    let group = group_with_history(&node, ann).await;
    let id = format!("g{group}");
    fill(&node, &id, 3).await;
    let mut stream = live(&node, bea).await;
    add(&node, group, &[bea]).await;
    say(&node, ann, To::GroupId(group), "welcome").await.unwrap();
    assert_eq!(stream.seqs_of(&id, 2).await, [4, 5]);
    let read = history(&node, bea, &id, 0, 10).await.unwrap();
    assert_eq!(read.messages.len(), 5, "it is there for those who ask");
}

#[tokio::test]
async fn recall_comes_as_an_event_with_its_number() {
    let (node, [ann, bea], id) = direct_chat().await;
    let mut stream = live(&node, bea).await;
    say(&node, ann, To::UserId(bea), "oops").await.unwrap();
    assert_eq!(stream.seqs(&id, 1).await, [1]);
    recall(&node, ann, &id, 1).await.unwrap();
    let event = stream.message().await;
    let recalled = Event::Recalled(MessageRecalled { seq: 1, user_id: ann });
    assert_eq!((event.seq, event.event.unwrap().what), (2, Some(recalled)));
}

#[tokio::test]
async fn recalled_message_comes_without_content_later() {
    let (node, [ann, bea], id) = direct_chat().await;
    let mut before = live(&node, bea).await;
    say(&node, ann, To::UserId(bea), "first").await.unwrap();
    before.message().await;
    let cursor = before.cursor.clone();
    drop(before);
    say(&node, ann, To::UserId(bea), "oops").await.unwrap();
    recall(&node, ann, &id, 2).await.unwrap();
    let mut stream = open(&node, bea, after(&cursor)).await.unwrap();
    let message = stream.message().await;
    assert_eq!((message.seq, message.body.len()), (2, 0));
    assert!(message.recall.is_some());
    assert_eq!(stream.message().await.seq, 3);
}

#[tokio::test]
async fn services_receive_for_users_too() {
    let (node, [ann, bea]) = with_users().await;
    let request = ReceiveRequest { user_id: bea, ..now() };
    let mut stream = node.messages().receive(request.clone()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().unwrap().deliveries[0].what == Some(What::Live(Live::default())));
    assert_denied(open(&node, ann, request).await);
    assert_invalid(node.messages().receive(now()).await, "user_id");
    assert_not_found(open(&node, bea + 1_000, now()).await.unwrap().response().await);
}

#[tokio::test]
async fn stopping_node_ends_its_streams() {
    let (node, [ann]) = with_users().await;
    let mut stream = live(&node, ann).await;
    let (ended, _data) = tokio::join!(stream.response(), node.stop());
    assert_error(ended, Code::Unavailable, "STOPPING");
}

#[tokio::test]
async fn slow_reader_gets_everything() {
    let (node, [ann, bea]) = patient().await;
    let id = direct(ann, bea);
    // The stream is not read while more is sent than the connection has room for.
    let mut stream = live(&node, bea).await;
    for _ in 0..10 {
        let message = || SendMessageRequest {
            body: vec![7; 64 << 10].into(),
            sender_id: ann,
            ..text(To::UserId(bea), "")
        };
        let sent = send_batch(&node, (0..12).map(|_| message()).collect()).await;
        assert!(sent.iter().all(Result::is_ok));
    }
    assert_eq!(stream.seqs(&id, 120).await, (1..=120).collect::<Vec<_>>());
}

#[tokio::test]
async fn slow_reader_of_a_trimmed_inbox_is_reset() {
    let (node, [ann, bea]) = node_with_users(|config| config.messages.inbox_entries = 10).await;
    let mut stream = live(&node, bea).await;
    let body = || SendMessageRequest { body: vec![7; 64 << 10].into(), ..text(To::UserId(bea), "") };
    for _ in 0..150 {
        send(&node, ann, body()).await.unwrap();
    }
    let mut last = 0;
    loop {
        match stream.next().await {
            What::Message(message) => {
                assert_eq!(message.seq, last + 1, "without gaps as far as it goes");
                last = message.seq;
            }
            What::Reset(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(last < 150);
    let id = direct(ann, bea);
    let mut again = open(&node, bea, has(&[(&id, last)])).await.unwrap();
    let rest = usize::try_from(150 - last).unwrap();
    assert_eq!(again.seqs(&id, rest).await, (last + 1..=150).collect::<Vec<_>>());
}
