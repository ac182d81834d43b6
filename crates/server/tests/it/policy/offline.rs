//! A push names a message's recipients who have no receiver.

use std::time::Duration;

use crate::dialog_calls::*;
use crate::group_calls::{add, chat, chat_with_id};
use crate::message_calls::*;
use crate::message_streams::live;
use crate::node::{TestNode, assert_error, assert_exhausted, assert_invalid};
use crate::relation_calls::{do_not_disturb, node_with_users};
use kith_proto::message::v1::{send_message_request::To, *};
use kith_server::config::Config;
use tonic::{Code, Streaming};

const PATIENCE: Duration = Duration::from_secs(30);

async fn node_with<const N: usize>(change: impl FnOnce(&mut Config)) -> (TestNode, [i64; N]) {
    node_with_users(|config| {
        config.messages.offline = true;
        change(config);
    })
    .await
}

async fn node<const N: usize>() -> (TestNode, [i64; N]) {
    node_with(|_| {}).await
}

/// A service that sends pushes.
struct Pusher {
    stream: Streaming<WatchOfflineResponse>,
    waiting: Vec<OfflineMessage>,
    cursor: String,
}

impl Pusher {
    async fn after(node: &TestNode, cursor: &str) -> Self {
        let request = WatchOfflineRequest { cursor: cursor.to_owned() };
        let stream = node.messages().watch_offline(request).await.unwrap().into_inner();
        let mut this = Self { stream, waiting: Vec::new(), cursor: String::new() };
        this.read().await;
        this
    }

    /// Opens a stream that names users from now on.
    async fn new(node: &TestNode) -> Self {
        let this = Self::after(node, "").await;
        assert!(this.waiting.is_empty());
        this
    }

    async fn read(&mut self) {
        let response = tokio::time::timeout(PATIENCE, self.stream.message()).await.expect("it comes in time");
        let response = response.unwrap().expect("the stream goes on");
        assert!(!response.missed && !response.cursor.is_empty());
        self.waiting.extend(response.messages);
        self.cursor = response.cursor;
    }

    async fn next(&mut self) -> OfflineMessage {
        while self.waiting.is_empty() {
            self.read().await;
        }
        self.waiting.remove(0)
    }

    /// Returns the next message's number, the users who are named, and those among them who are mentioned.
    async fn named(&mut self) -> (i64, Vec<i64>, Vec<i64>) {
        let next = self.next().await;
        (next.seq, next.user_ids, next.mentioned_user_ids)
    }
}

fn mentioning(to: To, mentions: &[i64]) -> SendMessageRequest {
    SendMessageRequest { mention_ids: mentions.to_vec(), ..text(to, "x") }
}

/// Sends a user's message for which these users must be named, and checks that it is the next message.
async fn assert_next_is(node: &TestNode, pusher: &mut Pusher, by: i64, group: i64, users: &[i64]) {
    let seq = send(node, by, mentioning(To::GroupId(group), users)).await.unwrap().seq;
    assert_eq!(pusher.named().await, (seq, users.to_vec(), users.to_vec()), "nothing was entered before it");
}

#[tokio::test]
async fn recipients_without_a_receiver_are_named() {
    let (node, [ann, bea, cid, dan]) = node().await;
    let group = chat(&node, ann, &[bea, cid, dan]).await;
    let mut pusher = Pusher::new(&node).await;
    let stream = live(&node, bea).await;
    let sent = send(&node, ann, text(To::GroupId(group), "x")).await.unwrap();
    let named = pusher.next().await;
    let expected = OfflineMessage {
        conversation_id: format!("g{group}"),
        seq: sent.seq,
        sender_id: ann,
        send_time: sent.send_time,
        user_ids: vec![cid, dan],
        mentioned_user_ids: vec![],
    };
    assert_eq!(named, expected, "neither the sender nor the one who receives");
    drop(stream);
    let mut seq = sent.seq;
    // The node notices the stream's end in the background.
    let named = loop {
        seq += 1;
        say(&node, ann, To::GroupId(group), "x").await.unwrap();
        let named = pusher.next().await;
        assert_eq!(named.seq, seq, "each once, in order");
        if named.user_ids.len() > 2 {
            break named;
        }
    };
    assert_eq!(named.user_ids, [bea, cid, dan]);
}

#[tokio::test]
async fn direct_messages_name_the_other_user() {
    let (node, [ann, bea]) = node().await;
    let mut pusher = Pusher::new(&node).await;
    say(&node, ann, To::UserId(ann), "milk").await.unwrap();
    say(&node, ann, To::UserId(bea), "hello").await.unwrap();
    let named = pusher.next().await;
    assert_eq!((named.conversation_id, named.seq, named.user_ids), (direct(ann, bea), 1, vec![bea]));
    let sent = node.messages().send_message(text(To::ConversationId(direct(ann, bea)), "x")).await.unwrap();
    let named = pusher.next().await;
    assert_eq!((named.seq, named.sender_id), (sent.into_inner().seq, 0));
    assert_eq!(named.user_ids, [ann, bea], "of a service");
}

#[tokio::test]
async fn do_not_disturb_is_kept_but_for_mentions() {
    let (node, [ann, bea, cid]) = node().await;
    let group = chat(&node, ann, &[bea, cid]).await;
    let settings = DialogSettings { do_not_disturb: true, ..Default::default() };
    update(&node, bea, to_update(&format!("g{group}"), settings, &["do_not_disturb"])).await.unwrap();
    do_not_disturb(&node, bea, ann, true).await;
    let mut pusher = Pusher::new(&node).await;
    say(&node, ann, To::GroupId(group), "x").await.unwrap();
    assert_eq!(pusher.named().await, (2, vec![cid], vec![]));
    let all = SendMessageRequest { mention_all: true, ..text(To::GroupId(group), "x") };
    send(&node, ann, all).await.unwrap();
    assert_eq!(pusher.named().await, (3, vec![cid], vec![]), "a mention of all is no mention by id");
    send(&node, ann, mentioning(To::GroupId(group), &[bea])).await.unwrap();
    assert_eq!(pusher.named().await, (4, vec![bea, cid], vec![bea]));
    say(&node, ann, To::UserId(bea), "x").await.unwrap();
    send(&node, ann, mentioning(To::UserId(bea), &[bea])).await.unwrap();
    assert_eq!(pusher.named().await, (2, vec![bea], vec![bea]), "the first message names no user");
    do_not_disturb(&node, bea, ann, false).await;
    say(&node, ann, To::UserId(bea), "x").await.unwrap();
    assert_eq!(pusher.named().await, (3, vec![bea], vec![]));
}

#[tokio::test]
async fn silent_messages_and_events_name_no_user() {
    let (node, [ann, bea, cid]) = node().await;
    let mut pusher = Pusher::new(&node).await;
    let group = chat(&node, ann, &[bea]).await;
    add(&node, group, &[cid]).await;
    let silent = SendMessageRequest { silent: true, ..mentioning(To::GroupId(group), &[bea]) };
    send(&node, ann, silent).await.unwrap();
    assert_next_is(&node, &mut pusher, ann, group, &[bea, cid]).await;
}

#[tokio::test]
async fn large_groups_name_mentioned_members_alone() {
    let (node, [ann, bea, cid, dan]) = node_with(|config| config.messages.fan_out_members_max = 2).await;
    let group = chat(&node, ann, &[bea, cid]).await;
    let mut pusher = Pusher::new(&node).await;
    let _stream = live(&node, cid).await;
    say(&node, ann, To::GroupId(group), "x").await.unwrap();
    send(&node, ann, mentioning(To::GroupId(group), &[bea, cid, dan, ann])).await.unwrap();
    let (_, users, mentioned) = pusher.named().await;
    assert_eq!((users, mentioned), (vec![bea], vec![bea]), "who receives, the sender, and who is no member");
}

#[tokio::test]
async fn batches_name_the_users_of_each_message() {
    let (node, [ann, bea, cid]) = node().await;
    let group = chat(&node, ann, &[bea, cid]).await;
    let mut pusher = Pusher::new(&node).await;
    let by = |sender_id| SendMessageRequest { sender_id, ..text(To::GroupId(group), "x") };
    assert!(send_batch(&node, vec![by(ann), by(bea), by(0)]).await.iter().all(Result::is_ok));
    assert_eq!(pusher.named().await, (2, vec![bea, cid], vec![]));
    assert_eq!(pusher.named().await, (3, vec![ann, cid], vec![]));
    assert_eq!(pusher.named().await, (4, vec![ann, bea, cid], vec![]));
}

#[tokio::test]
async fn cursor_resumes_after_what_was_sent() {
    let (node, [ann, bea, cid]) = node().await;
    let mut pusher = Pusher::new(&node).await;
    say(&node, ann, To::UserId(bea), "one").await.unwrap();
    assert_eq!(pusher.named().await.0, 1);
    let cursor = pusher.cursor.clone();
    drop(pusher);
    // The messages belong to three conversations in several logs.
    for at in 2..=150 {
        assert_eq!(say(&node, ann, To::UserId(bea), "x").await.unwrap(), at);
    }
    say(&node, ann, To::UserId(cid), "x").await.unwrap();
    say(&node, bea, To::UserId(cid), "x").await.unwrap();
    for _ in 0..2 {
        let mut pusher = Pusher::after(&node, &cursor).await;
        let (mut of_bea, mut others) = (Vec::new(), 0);
        while of_bea.len() + others < 151 {
            let next = pusher.next().await;
            if next.conversation_id == direct(ann, bea) { of_bea.push(next.seq) } else { others += 1 }
        }
        assert_eq!((of_bea, others), ((2..=150).collect::<Vec<_>>(), 2), "each stream gets everything");
        assert!(Pusher::after(&node, &pusher.cursor.clone()).await.waiting.is_empty());
    }
}

#[tokio::test]
async fn watching_needs_the_setting() {
    let plain = TestNode::start_with_relations(|_| {}).await;
    let refused = plain.messages().watch_offline(WatchOfflineRequest::default()).await;
    assert_error(refused, Code::FailedPrecondition, "NOT_CONFIGURED");
    plain.assert_healthy().await;
}

#[tokio::test]
async fn watchers_are_bounded() {
    let (node, []) = node().await;
    let mut open = Vec::new();
    for _ in 0..16 {
        open.push(Pusher::new(&node).await);
    }
    assert_exhausted(
        node.messages().watch_offline(WatchOfflineRequest::default()).await,
        "TOO_MANY_RECEIVERS",
    );
    drop(open);
    crate::node::until(async || node.messages().watch_offline(WatchOfflineRequest::default()).await.is_ok())
        .await;
}

#[tokio::test]
async fn cursors_that_are_wrong_are_refused() {
    let (node, [ann]) = node().await;
    let other = live(&node, ann).await.cursor;
    let right = Pusher::new(&node).await.cursor;
    let wrong = [
        "x",
        "AAAA",
        "ä",
        &"A".repeat(4_097),
        &"A".repeat(100_000),
        &other,
        &format!("{right}A"),
        &right[1..],
    ];
    for cursor in wrong {
        let request = WatchOfflineRequest { cursor: cursor.to_owned() };
        assert_invalid(node.messages().watch_offline(request).await, "cursor");
    }
    node.assert_healthy().await;
}

/// Imports texts without a number, sent at these times. Returns the numbers that they got.
async fn import_sent(node: &TestNode, id: &str, sender_id: i64, seconds: &[i64]) -> Vec<i64> {
    let record = |(record, seconds): (i64, &i64)| {
        let message = Message {
            conversation_id: id.to_owned(),
            sender_id,
            send_time: Some(prost_types::Timestamp { seconds: *seconds, nanos: 0 }),
            kind: MessageKind::Message.into(),
            content_type: "text/plain".into(),
            body: "old".into(),
            ..Default::default()
        };
        ImportMessage {
            record,
            message: Some(message),
            request_id: format!("r-{record}"),
            ..Default::default()
        }
    };
    let records = (1..).zip(seconds).map(record).collect();
    import_records(node, records).await.into_iter().map(Result::unwrap).collect()
}

#[tokio::test]
async fn imported_messages_are_not_named() {
    let (node, [ann, bea]) = node().await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    let mut pusher = Pusher::new(&node).await;
    let now = prost_types::Timestamp::from(std::time::SystemTime::now()).seconds;
    let imported = import_sent(&node, &id, ann, &[1_500_000_000, now]).await;
    // The replay is not named either.
    assert_eq!(import_sent(&node, &id, ann, &[1_500_000_000, now]).await, imported);
    let sent = say(&node, ann, To::GroupId(group), "new").await.unwrap();
    assert_eq!(pusher.named().await, (sent, vec![bea], vec![]), "nothing was entered before it");
}
