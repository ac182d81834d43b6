//! What a stream brings besides messages: notes and signals.

use crate::dialog_calls::{hide, mark, mark_up_to, pin, to_hide};
use crate::group_calls::{add, chat, chat_with_id};
use crate::message_calls::*;
use crate::message_streams::*;
use crate::node::{assert_denied, assert_forbidden, assert_not_found};
use crate::relation_calls::{block, follow, unfollow, with_users};
use kith_proto::message::v1::{
    delivery::What, note::What as Noted, send_message_request::To, signal::What as Signaled, *,
};

fn dialog(id: &str, read_seq: i64) -> Noted {
    Noted::Dialog(DialogChanged { conversation_id: id.to_owned(), read_seq })
}

#[tokio::test]
async fn marks_reach_own_devices() {
    let (node, [ann, bea], id) = direct_chat().await;
    for _ in 0..3 {
        say(&node, ann, To::UserId(bea), "x").await.unwrap();
    }
    let mut stream = live(&node, bea).await;
    mark_up_to(&node, bea, &id, 2).await;
    assert_eq!(stream.note().await, dialog(&id, 2));
    mark_up_to(&node, bea, &id, 1).await;
    pin(&node, bea, &id, true).await;
    assert_eq!(stream.note().await, dialog(&id, 2), "a mark that changes nothing is no note");
    hide(&node, bea, &id).await.unwrap();
    assert_eq!(stream.note().await, dialog(&id, 2));
}

#[tokio::test]
async fn notes_are_resumed_by_cursor() {
    let (node, [ann, bea]) = with_users().await;
    let cursor = live(&node, bea).await.cursor;
    follow(&node, ann, bea).await.unwrap();
    say(&node, ann, To::UserId(bea), "x").await.unwrap();
    let mut stream = open(&node, bea, after(&cursor)).await.unwrap();
    let mut came = [stream.next().await, stream.next().await];
    came.sort_by_key(|what| matches!(what, What::Message(_)));
    let added = Noted::FollowerAdded(ContactChanged { user_id: ann });
    assert_eq!(came[0], What::Note(Note { what: Some(added) }));
    assert!(matches!(&came[1], What::Message(message) if message.seq == 1), "{came:?}");
}

#[tokio::test]
async fn followers_that_come_and_go_are_noted() {
    let (node, [ann, bea]) = with_users().await;
    let mut stream = live(&node, bea).await;
    follow(&node, ann, bea).await.unwrap();
    assert_eq!(stream.note().await, Noted::FollowerAdded(ContactChanged { user_id: ann }));
    unfollow(&node, ann, bea).await.unwrap();
    assert_eq!(stream.note().await, Noted::FollowerRemoved(ContactChanged { user_id: ann }));
}

#[tokio::test]
async fn block_is_not_noted() {
    let (node, [ann, bea, cat]) = with_users().await;
    follow(&node, ann, bea).await.unwrap();
    let mut stream = live(&node, bea).await;
    block(&node, ann, bea).await;
    follow(&node, cat, bea).await.unwrap();
    assert_eq!(stream.note().await, Noted::FollowerAdded(ContactChanged { user_id: cat }));
}

#[tokio::test]
async fn peer_learns_what_was_read_live() {
    let (node, [ann, bea], id) = direct_chat().await;
    for _ in 0..3 {
        say(&node, ann, To::UserId(bea), "x").await.unwrap();
    }
    let mut stream = live(&node, ann).await;
    mark(&node, bea, to_hide(&id, 1)).await.unwrap();
    mark_up_to(&node, bea, &id, 3).await;
    let signal = stream.signal().await;
    assert_eq!((signal.conversation_id, signal.user_id), (id, bea));
    assert_eq!(signal.what, Some(Signaled::ReadSeq(3)), "a hidden mark is not shown");
}

#[tokio::test]
async fn blocked_peer_learns_nothing_of_marks() {
    let (node, [ann, bea], id) = direct_chat().await;
    say(&node, ann, To::UserId(bea), "x").await.unwrap();
    block(&node, bea, ann).await;
    let mut stream = live(&node, ann).await;
    mark_up_to(&node, bea, &id, 1).await;
    say(&node, ann, To::UserId(ann), "later").await.unwrap();
    assert_eq!(stream.places(1).await, [(direct(ann, ann), 1)]);
}

#[tokio::test]
async fn typing_reaches_the_others_once_in_3_s() {
    let (node, [ann, bea, cat]) = with_users().await;
    let (_, id) = chat_with_id(&node, ann, &[bea]).await;
    let mut streams = [live(&node, bea).await, live(&node, ann).await, live(&node, cat).await];
    for kind in [SignalKind::Typing, SignalKind::Typing, SignalKind::Stopped] {
        send_signal(&node, ann, &id, kind).await.unwrap();
    }
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let signal = streams[0].signal().await;
        assert_eq!((&signal.conversation_id, signal.user_id), (&id, ann));
        kinds.push(signal.what.unwrap());
    }
    let kind = |kind: SignalKind| Signaled::Activity(kind.into());
    kinds.sort_by_key(|what| *what != kind(SignalKind::Typing));
    assert_eq!(kinds, [kind(SignalKind::Typing), kind(SignalKind::Stopped)]);
    for (stream, user) in streams.iter_mut().zip([bea, ann, cat]) {
        say(&node, user, To::UserId(user), "x").await.unwrap();
        assert_eq!(stream.places(1).await, [(direct(user, user), 1)]);
    }
}

#[tokio::test]
async fn signal_is_in_no_cursor() {
    let (node, [ann, bea], id) = direct_chat().await;
    let mut stream = live(&node, bea).await;
    let cursor = stream.cursor.clone();
    send_signal(&node, ann, &id, SignalKind::Typing).await.unwrap();
    stream.signal().await;
    let mut again = open(&node, bea, after(&cursor)).await.unwrap();
    assert_eq!(again.until_live().await, []);
}

#[tokio::test]
async fn signals_need_the_right_to_send() {
    let (node, [ann, bea, cat]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    assert_denied(send_signal(&node, cat, &format!("g{group}"), SignalKind::Typing).await);
    assert_not_found(send_signal(&node, cat, &direct(ann, bea), SignalKind::Typing).await);
    block(&node, bea, ann).await;
    assert_forbidden(send_signal(&node, ann, &direct(ann, bea), SignalKind::Typing).await);
}

#[tokio::test]
async fn large_groups_have_no_signals() {
    let (node, [ann]) = with_users().await;
    let mut members = Vec::new();
    for at in 0..100 {
        members.push(node.user(&format!("member{at}")).await.user_id);
    }
    let (group, id) = chat_with_id(&node, ann, &members[..99]).await;
    send_signal(&node, ann, &id, SignalKind::Typing).await.unwrap();
    add(&node, group, &members[99..]).await;
    assert_forbidden(send_signal(&node, ann, &id, SignalKind::Typing).await);
}
