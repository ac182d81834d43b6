//! Messages are sent again, and in batches.

use crate::group_calls::chat;
use crate::message_calls::*;
use crate::node::{SERVICE, assert_reused};
use crate::relation_calls::{block, with_users};
use kith_proto::message::v1::{send_message_request::To, *};

#[tokio::test]
async fn resent_id_returns_the_first_message() {
    let (node, [ann, bea]) = with_users().await;
    let request = with_id(To::UserId(bea), "m-1", "hi");
    let first = send(&node, ann, request.clone()).await.unwrap();
    say(&node, bea, To::UserId(ann), "between").await.unwrap();
    for _ in 0..2 {
        let again = send(&node, ann, request.clone()).await.unwrap();
        assert_eq!(again, SendMessageResponse { replayed: true, ..first.clone() });
    }
    // Other fields than content type and body are not compared.
    let silent = SendMessageRequest { silent: true, reply_to_seq: 1, ..request.clone() };
    assert_eq!(send(&node, ann, silent).await.unwrap().seq, first.seq);
    let other = SendMessageRequest { body: "hi!".into(), ..request };
    assert_reused(send(&node, ann, other).await, "client_message_id");
    assert_eq!(read_all(&node, bea, &direct(ann, bea)).await, ["hi", "between"]);
}

#[tokio::test]
async fn id_is_of_its_sender_and_conversation() {
    let (node, [ann, bea, cid]) = with_users().await;
    let to = |user| with_id(To::UserId(user), "m-1", "hi");
    for (sender, user, seq) in [(ann, bea, 1), (bea, ann, 2), (ann, cid, 1), (ann, ann, 1)] {
        let sent = send(&node, sender, to(user)).await.unwrap();
        assert_eq!((sent.seq, sent.replayed), (seq, false));
    }
    let as_itself = with_id(To::ConversationId(direct(ann, bea)), "m-1", "hi");
    assert_eq!(send(&node, SERVICE, as_itself).await.unwrap().seq, 3);
}

#[tokio::test]
async fn client_id_is_for_its_sender_and_services() {
    let (node, [ann, bea]) = with_users().await;
    send(&node, ann, with_id(To::UserId(bea), "m-1", "hi")).await.unwrap();
    let request = to_pull(&direct(ann, bea), 0, 0, 0);
    for (user, shown) in [(ann, "m-1"), (bea, "")] {
        let page = pull(&node, user, request.clone()).await.unwrap();
        assert_eq!(page.messages[0].client_message_id, shown);
        let page = history(&node, user, &direct(ann, bea), 0, 0).await.unwrap();
        assert_eq!(page.messages[0].client_message_id, shown);
        let found = by_seqs(&node, user, &direct(ann, bea), &[1]).await.unwrap();
        assert_eq!(found.messages[0].client_message_id, shown);
    }
    let page = pull(&node, SERVICE, request).await.unwrap();
    assert_eq!(page.messages[0].client_message_id, "m-1");
}

/// Makes the request as a service sends it for a user.
fn for_user(sender_id: i64, request: SendMessageRequest) -> SendMessageRequest {
    SendMessageRequest { sender_id, ..request }
}

fn refused(reason: &str, field: &str) -> Result<(i64, bool), (String, String)> {
    Err((reason.to_owned(), field.to_owned()))
}

#[tokio::test]
async fn batch_keeps_the_order_within_a_conversation() {
    let (node, [ann, bea]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    fill(&node, &format!("g{group}"), 96).await;
    let message = |number: usize| {
        let to = if number.is_multiple_of(2) { To::GroupId(group) } else { To::UserId(bea) };
        for_user(ann, text(to, &number.to_string()))
    };
    let results = send_batch(&node, (0..100).map(message).collect()).await;
    let number = |at: usize| i64::try_from(at / 2 + if at.is_multiple_of(2) { 98 } else { 1 }).unwrap();
    assert_eq!(results, (0..100).map(|at| Ok((number(at), false))).collect::<Vec<_>>());
    let direct = read_all(&node, bea, &direct(ann, bea)).await;
    assert_eq!(direct, (0..50).map(|number| (2 * number + 1).to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn message_of_a_batch_fails_by_itself() {
    let (node, [ann, bea, cid]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    block(&node, bea, cid).await;
    let results = send_batch(
        &node,
        vec![
            for_user(ann, text(To::GroupId(group), "one")),
            for_user(cid, text(To::GroupId(group), "no member")),
            for_user(cid, text(To::UserId(bea), "blocked")),
            for_user(
                ann,
                SendMessageRequest { body: vec![0; 65_537].into(), ..text(To::GroupId(group), "") },
            ),
            for_user(ann, text(To::ConversationId("g0".into()), "no id")),
            for_user(ann, text(To::GroupId(987_654_321), "no group")),
            for_user(ann, text(To::GroupId(group), "two")),
        ],
    )
    .await;
    let expected = [
        Ok((2, false)),
        refused("NOT_ALLOWED", ""),
        refused("STATE_FORBIDS", ""),
        refused("INVALID_FIELD", "body"),
        refused("INVALID_FIELD", "conversation_id"),
        refused("NOT_FOUND", ""),
        Ok((3, false)),
    ];
    assert_eq!(results, expected);
    assert_eq!(read_all(&node, bea, &format!("g{group}")).await, ["one", "two"]);
}

#[tokio::test]
async fn id_is_in_a_batch_once() {
    let (node, [ann, bea]) = with_users().await;
    let to_bea = |id: &str, body: &str| for_user(ann, with_id(To::UserId(bea), id, body));
    let batch = || vec![to_bea("a", "1"), to_bea("b", "2"), to_bea("a", "1"), to_bea("c", "3")];
    let twice = refused("INVALID_FIELD", "client_message_id");
    let expected = |replayed| [Ok((1, replayed)), Ok((2, replayed)), twice.clone(), Ok((3, replayed))];
    assert_eq!(send_batch(&node, batch()).await, expected(false));
    assert_eq!(send_batch(&node, batch()).await, expected(true));
    // The messages have another sender, or another conversation.
    let others = vec![
        to_bea("d", "4"),
        for_user(bea, with_id(To::UserId(ann), "d", "5")),
        for_user(ann, with_id(To::UserId(ann), "d", "6")),
        to_bea("a", "other"),
    ];
    let reused = refused("REQUEST_ID_REUSED", "client_message_id");
    let results = send_batch(&node, others).await;
    assert_eq!(results, [Ok((4, false)), Ok((5, false)), Ok((1, false)), reused]);
}
