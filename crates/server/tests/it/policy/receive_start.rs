//! A stream begins after a cursor, after positions, or now.

use crate::dialog_calls::{clear, trim};
use crate::group_calls::{chat_with_id, leave};
use crate::message_calls::*;
use crate::message_streams::*;
use crate::node::{SERVICE, TestNode, assert_invalid};
use crate::relation_calls::{node_with_users, with_users};
use kith_proto::message::v1::{delivery::What, send_message_request::To, *};

/// Sends `count` messages, in turn.
async fn talk(node: &TestNode, by: i64, to: i64, count: i64) {
    for _ in 0..count {
        say(node, by, To::UserId(to), "x").await.unwrap();
    }
}

#[tokio::test]
async fn cursor_resumes_after_what_it_came_with() {
    let (node, [ann, bea], id) = direct_chat().await;
    let mut stream = live(&node, bea).await;
    let first = stream.cursor.clone();
    talk(&node, ann, bea, 5).await;
    let mut cursors = vec![(0, first)];
    while cursors.last().unwrap().0 < 5 {
        let response = stream.response().await.unwrap().unwrap();
        let Some(What::Message(last)) = response.deliveries.last().unwrap().what.clone() else { panic!() };
        cursors.push((last.seq, response.cursor));
    }
    for (seq, cursor) in cursors {
        let mut again = open(&node, bea, after(&cursor)).await.unwrap();
        let expected: Vec<i64> = (seq + 1..=5).collect();
        let sent = again.until_live().await;
        let sent = sent.into_iter().map(|what| match what {
            What::Message(message) => (message.conversation_id, message.seq),
            other => panic!("{other:?}"),
        });
        assert_eq!(
            sent.collect::<Vec<_>>(),
            expected.iter().map(|seq| (id.clone(), *seq)).collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn cursor_within_an_entry_resumes_there() {
    // The conversation with Cat has no mark in the inbox: its next message is a whole entry.
    let (node, [ann, bea, cat]) = node_with_users(|config| config.messages.conversations_max = 1).await;
    let id = direct(bea, cat);
    talk(&node, ann, bea, 1).await;
    let body =
        || SendMessageRequest { body: vec![7; 64 << 10].into(), sender_id: cat, ..text(To::UserId(bea), "") };
    for _ in 0..4 {
        assert!(send_batch(&node, (0..12).map(|_| body()).collect()).await.iter().all(Result::is_ok));
    }
    let mut stream = open(&node, bea, now()).await.unwrap();
    stream.until_live().await;
    talk(&node, cat, bea, 1).await;
    let mut cursors = Vec::new();
    let mut last = 0;
    while last < 49 {
        let response = stream.response().await.unwrap().unwrap();
        for delivery in response.deliveries {
            let Some(What::Message(message)) = delivery.what else { panic!("{:?}", delivery.what) };
            assert_eq!((&message.conversation_id, message.seq), (&id, last + 1));
            last = message.seq;
        }
        cursors.push((last, response.cursor));
    }
    assert!(cursors.len() > 2, "one entry, and several responses");
    for (seq, cursor) in cursors {
        let mut again = open(&node, bea, after(&cursor)).await.unwrap();
        let rest = usize::try_from(49 - seq).unwrap();
        assert_eq!(again.seqs(&id, rest).await, (seq + 1..=49).collect::<Vec<_>>());
        assert_eq!(again.until_live().await, []);
    }
}

#[tokio::test]
async fn positions_cut_what_a_cursor_would_repeat() {
    let (node, [ann, bea], id) = direct_chat().await;
    let cursor = live(&node, bea).await.cursor;
    talk(&node, ann, bea, 5).await;
    let request = ReceiveRequest { positions: has(&[(&id, 3)]).positions, ..after(&cursor) };
    let mut stream = open(&node, bea, request).await.unwrap();
    assert_eq!(stream.seqs(&id, 2).await, [4, 5]);
    assert_eq!(stream.until_live().await, []);
    talk(&node, ann, bea, 1).await;
    assert_eq!(stream.seqs(&id, 1).await, [6]);
}

#[tokio::test]
async fn positions_bring_what_the_client_lacks() {
    let (node, [ann, bea, cat]) = with_users().await;
    let (of_ann, of_cat) = (direct(ann, bea), direct(bea, cat));
    talk(&node, ann, bea, 4).await;
    talk(&node, cat, bea, 2).await;
    let mut stream = open(&node, bea, has(&[(&of_ann, 1)])).await.unwrap();
    let before = stream.response().await.unwrap().unwrap();
    assert_eq!(before.cursor, "", "a catch-up has no cursor");
    let mut whats: Vec<What> = before.deliveries.into_iter().filter_map(|delivery| delivery.what).collect();
    if !whats.contains(&What::Live(Live::default())) {
        whats.extend(stream.until_live().await);
    }
    let seqs = whats.iter().filter_map(|what| match what {
        What::Message(message) if message.conversation_id == of_ann => Some(message.seq),
        _ => None,
    });
    assert_eq!(seqs.collect::<Vec<_>>(), [2, 3, 4]);
    assert!(whats.contains(&missed(&of_cat, 1, 2)), "{whats:?}");
    talk(&node, ann, bea, 1).await;
    assert_eq!(stream.seqs(&of_ann, 1).await, [5]);
    assert!(!stream.cursor.is_empty());
}

#[tokio::test]
async fn catch_up_and_inbox_overlap_without_doubles() {
    let (node, [ann, bea], id) = direct_chat().await;
    let mut other = live(&node, bea).await;
    talk(&node, ann, bea, 3).await;
    assert_eq!(other.seqs(&id, 3).await, [1, 2, 3]);
    let mut stream = open(&node, bea, has(&[(&id, 1)])).await.unwrap();
    assert_eq!(stream.seqs(&id, 2).await, [2, 3]);
    assert_eq!(stream.until_live().await, []);
    talk(&node, ann, bea, 1).await;
    assert_eq!((stream.seqs(&id, 1).await, other.seqs(&id, 1).await), (vec![4], vec![4]));
}

#[tokio::test]
async fn backlog_beyond_its_bound_is_named() {
    let (node, [ann, bea]) = node_with_users(|config| config.messages.backlog_max = 3).await;
    let id = direct(ann, bea);
    talk(&node, ann, bea, 8).await;
    let mut stream = open(&node, bea, has(&[(&id, 1)])).await.unwrap();
    assert_eq!(stream.next().await, missed(&id, 2, 5));
    assert_eq!(stream.seqs(&id, 3).await, [6, 7, 8]);
}

#[tokio::test]
async fn cleared_and_trimmed_messages_do_not_come() {
    let (node, [ann, bea], id) = direct_chat().await;
    talk(&node, ann, bea, 3).await;
    clear(&node, bea, &id).await.unwrap();
    talk(&node, ann, bea, 3).await;
    let mut stream = open(&node, bea, has(&[(&id, 1)])).await.unwrap();
    assert_eq!(stream.seqs(&id, 3).await, [4, 5, 6]);
    trim(&node, SERVICE, &id, 6).await.unwrap();
    let mut stream = open(&node, bea, has(&[])).await.unwrap();
    stream.assert_reset().await;
    let mut stream = open(&node, ann, has(&[(&id, 0)])).await.unwrap();
    assert_eq!(stream.seqs(&id, 1).await, [6]);
}

#[tokio::test]
async fn former_member_gets_what_it_may_read() {
    let (node, [ann, bea]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    fill(&node, &id, 2).await;
    leave(&node, group, bea).await;
    fill(&node, &id, 2).await;
    let mut stream = open(&node, bea, has(&[(&id, 1)])).await.unwrap();
    assert_eq!(stream.seqs(&id, 2).await, [2, 3]);
    assert_eq!(stream.until_live().await, []);
}

#[tokio::test]
async fn positions_of_foreign_conversations_are_empty() {
    let (node, [ann, bea, cat]) = with_users().await;
    talk(&node, ann, bea, 2).await;
    let mut stream = open(&node, cat, has(&[(&direct(ann, bea), 0), ("g999", 0)])).await.unwrap();
    assert_eq!(stream.until_live().await, []);
    talk(&node, ann, bea, 1).await;
    talk(&node, ann, cat, 1).await;
    assert_eq!(stream.places(1).await, [(direct(ann, cat), 1)]);
}

#[tokio::test]
async fn stream_without_a_start_is_reset() {
    let (node, [ann]) = with_users().await;
    open(&node, ann, ReceiveRequest::default()).await.unwrap().assert_reset().await;
    live(&node, ann).await;
}

#[tokio::test]
async fn cursor_of_another_user_is_refused() {
    let (node, [ann, bea]) = with_users().await;
    let cursor = live(&node, ann).await.cursor;
    for (by, cursor) in [(bea, cursor.clone()), (ann, format!("{cursor}A")), (ann, "x".to_owned())] {
        assert_invalid(open(&node, by, after(&cursor)).await, "cursor");
    }
}

/// The cursor comes from another cluster, or from an earlier account.
#[tokio::test]
async fn cursor_of_another_past_gives_way_to_positions() {
    let (node, [ann, bea], id) = direct_chat().await;
    let foreign = live(&node, ann).await.cursor;
    talk(&node, ann, bea, 3).await;
    for cursor in [foreign, "x".to_owned()] {
        let request = ReceiveRequest { positions: has(&[(&id, 1)]).positions, ..after(&cursor) };
        let mut stream = open(&node, bea, request).await.unwrap();
        assert_eq!(stream.seqs(&id, 2).await, [2, 3]);
        assert_eq!(stream.until_live().await, []);
        let mut again = open(&node, bea, after(&stream.cursor)).await.unwrap();
        assert_eq!(again.until_live().await, [], "it continues with a cursor of its own");
    }
}

#[tokio::test]
async fn cursor_that_is_too_old_is_reset_or_caught_up() {
    let (node, [ann, bea]) = node_with_users(|config| config.messages.inbox_entries = 10).await;
    let id = direct(ann, bea);
    let cursor = live(&node, bea).await.cursor;
    talk(&node, ann, bea, 150).await;
    open(&node, bea, after(&cursor)).await.unwrap().assert_reset().await;
    let request = ReceiveRequest { positions: has(&[(&id, 148)]).positions, ..after(&cursor) };
    let mut stream = open(&node, bea, request).await.unwrap();
    assert_eq!(stream.seqs(&id, 2).await, [149, 150]);
}

#[tokio::test]
async fn cursor_of_an_earlier_start_is_caught_up() {
    let (node, [ann, bea], id) = direct_chat().await;
    let cursor = live(&node, bea).await.cursor;
    talk(&node, ann, bea, 2).await;
    let data = node.stop().await;
    let node = TestNode::start_with_relations(|config| config.data_dir = data.path().join("data")).await;
    open(&node, bea, after(&cursor)).await.unwrap().assert_reset().await;
    let request = ReceiveRequest { positions: has(&[(&id, 1)]).positions, ..after(&cursor) };
    let mut stream = open(&node, bea, request).await.unwrap();
    assert_eq!(stream.seqs(&id, 1).await, [2]);
    assert_eq!(stream.until_live().await, []);
    talk(&node, ann, bea, 1).await;
    assert_eq!(stream.seqs(&id, 1).await, [3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_opened_during_sends_misses_none() {
    let (node, [ann, bea], id) = direct_chat().await;
    for round in 1..=10 {
        let (mut stream, ()) = tokio::join!(
            async { open(&node, bea, has(&[(&id, 0)])).await.unwrap() },
            talk(&node, ann, bea, 10)
        );
        let count = usize::try_from(round * 10).unwrap();
        assert_eq!(stream.seqs_of(&id, count).await, (1..=round * 10).collect::<Vec<_>>());
    }
}
