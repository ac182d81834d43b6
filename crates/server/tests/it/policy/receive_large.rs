//! Groups that are too large for inboxes, or cross that limit.

use crate::group_calls::{add, chat_with_id, remove};
use crate::message_calls::*;
use crate::message_streams::*;
use crate::node::TestNode;
use crate::relation_calls::node_with_users;
use kith_proto::message::v1::{Live, delivery::What, send_message_request::To};

/// Starts a node that writes to inboxes for groups with up to 3 members, with users.
async fn started<const N: usize>() -> (TestNode, [i64; N]) {
    node_with_users(|config| config.messages.fan_out_members_max = 3).await
}

/// Sends `count` texts to a group. Returns the last text's number.
async fn talk(node: &TestNode, by: i64, group: i64, count: i64) -> i64 {
    let mut last = 0;
    for _ in 0..count {
        last = say(node, by, To::GroupId(group), "x").await.unwrap();
    }
    last
}

/// Checks that the stream brings a conversation's numbers from `first` to `last`, once and in order.
async fn assert_brings(stream: &mut Stream, id: &str, first: i64, last: i64) {
    let count = usize::try_from(last - first + 1).unwrap();
    assert_eq!(stream.seqs_of(id, count).await, (first..=last).collect::<Vec<_>>());
}

#[tokio::test]
async fn members_of_a_large_group_receive_its_messages() {
    let (node, [ann, bea, cat, dan]) = started().await;
    let (group, id) = chat_with_id(&node, ann, &[bea, cat, dan]).await;
    talk(&node, ann, group, 3).await;
    let mut streams = [live(&node, ann).await, live(&node, bea).await];
    let last = talk(&node, cat, group, 5).await;
    for stream in &mut streams {
        assert_brings(stream, &id, 5, last).await;
    }
    remove(&node, group, bea).await;
    let end = talk(&node, cat, group, 1).await;
    assert_brings(&mut streams[0], &id, last + 1, end).await;
    say(&node, ann, To::UserId(bea), "bye").await.unwrap();
    assert_eq!(streams[1].seqs_of(&direct(ann, bea), 1).await, [1], "nothing of the group");
}

#[tokio::test]
async fn large_group_is_resumed_by_cursor() {
    let (node, [ann, bea, cat, dan]) = started().await;
    let (group, id) = chat_with_id(&node, ann, &[bea, cat, dan]).await;
    let mut stream = live(&node, bea).await;
    let first = stream.cursor.clone();
    let seen = talk(&node, ann, group, 4).await;
    assert_brings(&mut stream, &id, 2, seen).await;
    let cursor = stream.cursor.clone();
    drop(stream);
    let last = talk(&node, ann, group, 3).await;
    let mut stream = open(&node, bea, after(&cursor)).await.unwrap();
    assert_brings(&mut stream, &id, seen + 1, last).await;
    assert_eq!(stream.until_live().await, []);
    let mut stream = open(&node, bea, after(&first)).await.unwrap();
    assert_brings(&mut stream, &id, 2, last).await;
}

#[tokio::test]
async fn large_group_is_caught_up_by_position() {
    let (node, [ann, bea, cat, dan]) = started().await;
    let (group, id) = chat_with_id(&node, ann, &[bea, cat, dan]).await;
    let last = talk(&node, ann, group, 6).await;
    for _ in 0..2 {
        let mut stream = open(&node, bea, has(&[(&id, 3)])).await.unwrap();
        assert_brings(&mut stream, &id, 4, last).await;
        assert_eq!(stream.until_live().await, []);
    }
    let mut stream = open(&node, bea, has(&[(&id, 3)])).await.unwrap();
    let end = talk(&node, ann, group, 2).await;
    assert_brings(&mut stream, &id, 4, end).await;
}

#[tokio::test]
async fn stream_from_now_has_no_older_large_group() {
    let (node, [ann, bea, cat, dan]) = started().await;
    let (group, id) = chat_with_id(&node, ann, &[bea, cat, dan]).await;
    live(&node, bea).await;
    let seen = talk(&node, ann, group, 4).await;
    let mut stream = live(&node, bea).await;
    let last = talk(&node, ann, group, 1).await;
    assert_brings(&mut stream, &id, seen + 1, last).await;
}

#[tokio::test]
async fn group_that_grows_and_shrinks_loses_nothing() {
    let (node, [ann, bea, cat, dan]) = started().await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    let mut streams = [live(&node, bea).await, live(&node, bea).await];
    for _ in 0..3 {
        talk(&node, ann, group, 2).await;
        add(&node, group, &[cat, dan]).await;
        talk(&node, ann, group, 2).await;
        remove(&node, group, cat).await;
        remove(&node, group, dan).await;
        talk(&node, ann, group, 1).await;
    }
    let last = end(&node, &id).await;
    for stream in &mut streams {
        assert_brings(stream, &id, 2, last).await;
    }
    let cursor = streams[0].cursor.clone();
    let end = talk(&node, ann, group, 2).await;
    let mut again = open(&node, bea, after(&cursor)).await.unwrap();
    assert_brings(&mut again, &id, last + 1, end).await;
}

#[tokio::test]
async fn joiner_of_a_large_group_receives_from_join() {
    let (node, [ann, bea, cat, dan, eve]) = started().await;
    let (group, id) = chat_with_id(&node, ann, &[bea, cat, dan]).await;
    let seen = talk(&node, ann, group, 3).await;
    let mut stream = live(&node, eve).await;
    add(&node, group, &[eve]).await;
    let last = talk(&node, ann, group, 2).await;
    assert_brings(&mut stream, &id, seen + 1, last).await;
}

/// An earlier member gets no note when others join. Its stream learns the new size when the inbox is renewed.
#[tokio::test]
async fn growth_past_the_limit_delays_one_renewal() {
    let (node, [ann, bea, cat, dan, eve, fay]) =
        node_with_users(|config| config.messages.fan_out_members_max = 4).await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    let mut stream = live(&node, bea).await;
    let seen = talk(&node, ann, group, 2).await;
    assert_brings(&mut stream, &id, 2, seen).await;
    add(&node, group, &[cat, dan, eve, fay]).await;
    let last = talk(&node, ann, group, 2).await;
    assert_brings(&mut stream, &id, seen + 1, last).await;
    let last = talk(&node, ann, group, 1).await;
    assert_brings(&mut stream, &id, last, last).await;
}

/// Makes more large groups than a stream reads itself, each with one message since the stream began.
async fn beyond_64(node: &TestNode, [ann, bea, cat, dan]: [i64; 4]) -> (Vec<i64>, Vec<String>) {
    let mut groups = Vec::new();
    for _ in 0..70 {
        groups.push(chat_with_id(node, ann, &[bea, cat, dan]).await);
    }
    groups.into_iter().unzip()
}

/// Returns the conversations about which the stream sends something, each with its last number. The second
/// list has those that are missed.
async fn news_of(stream: &mut Stream, count: usize) -> (Vec<(String, i64)>, Vec<(String, i64)>) {
    let (mut sent, mut missed) = (Vec::new(), Vec::new());
    while sent.len() + missed.len() < count {
        match stream.next().await {
            What::Message(message) => sent.push((message.conversation_id, message.seq)),
            What::Missed(gap) => missed.push((gap.conversation_id, gap.to_seq)),
            other => panic!("{other:?}"),
        }
    }
    (sent, missed)
}

#[tokio::test]
async fn large_groups_beyond_64_are_missed() {
    let (node, users) = started::<4>().await;
    let [ann, bea, ..] = users;
    let (groups, ids) = beyond_64(&node, users).await;
    let mut stream = live(&node, bea).await;
    for round in 0..2 {
        for group in &groups {
            talk(&node, ann, *group, 1).await;
        }
        let (sent, missed) = news_of(&mut stream, 70).await;
        assert_eq!((sent.len(), missed.len()), (64, 6), "round {round}: {missed:?}");
        let mut all: Vec<_> = sent.into_iter().chain(missed).collect();
        all.sort();
        let mut expected: Vec<_> = ids.iter().map(|id| (id.clone(), 2 + round)).collect();
        expected.sort();
        assert_eq!(all, expected, "each once");
    }
}

#[tokio::test]
async fn resumed_stream_names_groups_beyond_64() {
    let (node, users) = started::<4>().await;
    let [ann, bea, ..] = users;
    let (groups, ids) = beyond_64(&node, users).await;
    let stream = live(&node, bea).await;
    let cursor = stream.cursor.clone();
    drop(stream);
    for group in &groups {
        talk(&node, ann, *group, 1).await;
    }
    let mut stream = open(&node, bea, after(&cursor)).await.unwrap();
    let before = stream.until_live().await;
    let named = |what: &What, id: &String| match what {
        What::Message(message) => message.conversation_id == *id && message.seq == 2,
        What::Missed(gap) => gap.conversation_id == *id && gap.to_seq == 2,
        _ => false,
    };
    let mut all = before;
    while all.len() < 70 {
        all.push(stream.next().await);
    }
    assert!(ids.iter().all(|id| all.iter().any(|what| named(what, id))), "{all:?}");
    assert_eq!(all.iter().filter(|what| matches!(what, What::Missed(_))).count(), 6);
}

#[tokio::test]
async fn live_counts_what_the_backlog_left_out() {
    let (node, [ann, bea]) = node_with_users(|config| config.messages.conversations_max = 2).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(chat_with_id(&node, ann, &[bea]).await.1);
    }
    for (request, left_out) in [(has(&[(&ids[0], 1)]), 1), (now(), 0)] {
        let mut stream = open(&node, bea, request).await.unwrap();
        let live = loop {
            if let What::Live(live) = stream.next().await {
                break live;
            }
        };
        assert_eq!(live, Live { left_out });
    }
}
