//! The faults in the published scheme for inboxes in Redis Streams do not occur here. A row is one fault.

use crate::group_calls::{add, chat_with_id, leave};
use crate::message_calls::*;
use crate::message_streams::*;
use crate::node::SERVICE;
use crate::relation_calls::with_users;
use kith_proto::message::v1::send_message_request::To;

/// Row 1: an entry with another stream's id is refused if the inbox is ahead of that stream.
#[tokio::test]
async fn inbox_ahead_of_the_sender_gets_the_message() {
    let (node, [ann, bea, cat]) = with_users().await;
    let mut stream = live(&node, bea).await;
    for number in 1..=30 {
        say(&node, cat, To::UserId(bea), "x").await.unwrap();
        assert_eq!(stream.seqs(&direct(bea, cat), 1).await, [number]);
    }
    say(&node, ann, To::UserId(bea), "first").await.unwrap();
    assert_eq!(stream.places(1).await, [(direct(ann, bea), 1)]);
}

/// Row 10: trimming breaks the inboxes' references.
#[tokio::test]
async fn trimmed_conversation_leaves_no_dangling_entry() {
    let (node, [ann, bea], id) = direct_chat().await;
    let cursor = live(&node, bea).await.cursor;
    for _ in 0..5 {
        say(&node, ann, To::UserId(bea), "x").await.unwrap();
    }
    crate::dialog_calls::trim(&node, SERVICE, &id, 4).await.unwrap();
    let mut stream = open(&node, bea, after(&cursor)).await.unwrap();
    assert_eq!(stream.seqs(&id, 2).await, [4, 5]);
    assert_eq!(stream.until_live().await, []);
}

/// Row 13: a user who quits keeps its place, and the order between its leave and messages is undefined.
#[tokio::test]
async fn leave_ends_the_messages_of_the_group() {
    let (node, [ann, bea]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    let mut stream = live(&node, bea).await;
    say(&node, ann, To::GroupId(group), "x").await.unwrap();
    leave(&node, group, bea).await;
    say(&node, ann, To::GroupId(group), "y").await.unwrap();
    add(&node, group, &[bea]).await;
    say(&node, ann, To::GroupId(group), "z").await.unwrap();
    // 3 is the event for the leave, 4 was sent meanwhile, 5 is the event for the join.
    assert_eq!(stream.seqs_of(&id, 3).await, [2, 5, 6]);
}
