//! The right to send a message, and the result when a message is sent again.

use crate::group_calls::{add, chat, chat_with_id, chess, dismiss, make, make_admin, mute, mute_all};
use crate::message_calls::*;
use crate::node::{SERVICE, assert_denied, assert_error, assert_forbidden, assert_not_found};
use crate::relation_calls::{block, follow, node_with_users, unblock, with_users};
use kith_proto::{
    group::v1::{Group, GroupType, JoinPolicy, Visibility},
    message::v1::{send_message_request::To, *},
};
use kith_service::message::DirectFrom;
use prost_types::Timestamp;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// An id that no user and no group has.
const NONE: i64 = 987_654_321;

/// Checks that a send is refused because a mute lasts until this second.
#[track_caller]
fn assert_muted(refused: Result<i64, Status>, until: i64) {
    let refused = assert_error(refused, Code::FailedPrecondition, "MUTED");
    let details = refused.get_error_details();
    let until = Timestamp { seconds: until, nanos: 0 }.to_string();
    assert_eq!(details.error_info().unwrap().metadata["until"], until);
}

#[tokio::test]
async fn direct_messages_are_read_by_their_users() {
    let (node, [ann, bea]) = with_users().await;
    let sent = send(&node, ann, text(To::UserId(bea), "hi")).await.unwrap();
    assert_eq!((sent.conversation_id, sent.seq, sent.replayed), (direct(ann, bea), 1, false));
    assert_eq!(say(&node, bea, To::UserId(ann), "hello").await.unwrap(), 2);
    let by_id = To::ConversationId(direct(ann, bea));
    assert_eq!(say(&node, ann, by_id, "well?").await.unwrap(), 3);
    for user in [ann, bea] {
        assert_eq!(read_all(&node, user, &direct(ann, bea)).await, ["hi", "hello", "well?"]);
    }
    let sent = send(&node, ann, text(To::UserId(ann), "milk")).await.unwrap();
    assert_eq!(sent.conversation_id, direct(ann, ann));
    assert_eq!(read_all(&node, ann, &direct(ann, ann)).await, ["milk"]);
    assert_not_found(pull(&node, bea, to_pull(&direct(ann, ann), 0, 0, 0)).await);
    assert_not_found(say(&node, ann, To::UserId(NONE), "hi").await);
    assert_not_found(say(&node, NONE, To::UserId(ann), "hi").await);
    assert_not_found(say(&node, NONE, To::UserId(NONE), "hi").await);
    let as_itself = text(To::ConversationId(direct(ann, NONE)), "hi");
    assert_not_found(send(&node, SERVICE, as_itself).await);
}

#[tokio::test]
async fn message_has_every_field_that_was_sent() {
    let (node, [ann, bea]) = with_users().await;
    say(&node, bea, To::UserId(ann), "question").await.unwrap();
    let request = SendMessageRequest {
        content_type: "application/json; a=b".into(),
        body: vec![0, 255, 10].into(),
        mention_ids: vec![bea, NONE, ann],
        mention_all: true,
        reply_to_seq: 1,
        silent: true,
        ..with_id(To::UserId(bea), "id_1-a", "")
    };
    let sent = send(&node, ann, request.clone()).await.unwrap();
    let read = pull(&node, ann, to_pull(&direct(ann, bea), 2, 0, 0)).await.unwrap().messages.remove(0);
    let expected = Message {
        conversation_id: direct(ann, bea),
        seq: 2,
        sender_id: ann,
        send_time: sent.send_time,
        kind: MessageKind::Message.into(),
        content_type: request.content_type,
        body: request.body,
        mention_ids: request.mention_ids,
        mention_all: true,
        reply_to_seq: 1,
        silent: true,
        client_message_id: request.client_message_id,
        ..Default::default()
    };
    assert_eq!(read, expected);
}

#[tokio::test]
async fn direct_conversation_of_others_is_not_found() {
    let (node, [ann, bea, cid]) = with_users().await;
    say(&node, ann, To::UserId(bea), "hi").await.unwrap();
    let of_both = direct(ann, bea);
    assert_not_found(say(&node, cid, To::ConversationId(of_both.clone()), "hi").await);
    assert_not_found(pull(&node, cid, to_pull(&of_both, 0, 0, 0)).await);
    assert_not_found(by_seqs(&node, cid, &of_both, &[1]).await);
    assert_not_found(history(&node, cid, &of_both, 0, 0).await);
    assert_not_found(seq_by_time(&node, cid, &of_both, Timestamp::default()).await);
    assert_eq!(max_seqs(&node, cid, &[&of_both]).await, [Err("NOT_FOUND".to_owned())]);
    assert_eq!(read_all(&node, ann, &of_both).await, ["hi"]);
}

#[tokio::test]
async fn block_by_either_user_forbids_both_to_send() {
    let (node, [ann, bea]) = with_users().await;
    for (by, target) in [(ann, bea), (bea, ann)] {
        block(&node, by, target).await;
        let mut texts = Vec::new();
        for (sender, other) in [(ann, bea), (bea, ann)] {
            let refused = assert_forbidden(say(&node, sender, To::UserId(other), "hi").await);
            texts.push(refused.message().to_owned());
        }
        assert_eq!(texts[0], texts[1], "the error does not say who has blocked whom");
        assert!(!texts[0].contains("block") && !texts[0].contains(&by.to_string()), "{texts:?}");
        unblock(&node, by, target).await;
    }
    assert_eq!(say(&node, ann, To::UserId(bea), "hi").await.unwrap(), 1, "no refused one was stored");
}

#[tokio::test]
async fn only_friends_send_where_that_is_configured() {
    let friends = DirectFrom::Friends;
    let (node, [ann, bea, cid]) = node_with_users(|config| config.messages.direct_from = friends).await;
    follow(&node, ann, bea).await.unwrap();
    assert_forbidden(say(&node, ann, To::UserId(bea), "hi").await);
    assert_forbidden(say(&node, bea, To::UserId(ann), "hi").await);
    follow(&node, bea, ann).await.unwrap();
    assert_eq!(say(&node, ann, To::UserId(bea), "hi").await.unwrap(), 1);
    assert_eq!(say(&node, ann, To::UserId(ann), "note").await.unwrap(), 1);
    assert_forbidden(say(&node, cid, To::UserId(bea), "hi").await);
    block(&node, bea, ann).await;
    assert_forbidden(say(&node, ann, To::UserId(bea), "hi").await);
}

#[tokio::test]
async fn service_sends_as_itself_and_for_users() {
    let (node, [ann, bea, cid]) = with_users().await;
    block(&node, ann, bea).await;
    let group = chat(&node, ann, &[]).await;
    for to in [To::ConversationId(direct(ann, bea)), To::GroupId(group)] {
        assert_eq!(send(&node, SERVICE, text(to.clone(), "news")).await.unwrap().seq, 1);
    }
    let page = pull(&node, bea, to_pull(&direct(ann, bea), 0, 0, 0)).await.unwrap();
    assert_eq!(page.messages[0].sender_id, 0);
    assert_not_found(send(&node, SERVICE, text(To::GroupId(NONE), "news")).await);
    let group = chat(&node, ann, &[bea]).await;
    let request = |sender_id, to| SendMessageRequest { sender_id, ..text(to, "hi") };
    assert_forbidden(send(&node, SERVICE, request(bea, To::UserId(ann))).await);
    assert_denied(send(&node, SERVICE, request(cid, To::GroupId(group))).await);
    let sent = send(&node, SERVICE, request(bea, To::GroupId(group))).await.unwrap();
    let page = pull(&node, ann, to_pull(&sent.conversation_id, 0, 0, 0)).await.unwrap();
    assert_eq!(page.messages.last().unwrap().sender_id, bea);
}

#[tokio::test]
async fn service_reads_everything() {
    let (node, [ann, bea]) = with_users().await;
    let group = chat(&node, ann, &[]).await;
    for to in [To::GroupId(group), To::UserId(bea)] {
        say(&node, ann, to, "hi").await.unwrap();
    }
    for conversation in [format!("g{group}"), direct(ann, bea)] {
        let page = pull(&node, SERVICE, to_pull(&conversation, 0, 0, 0)).await.unwrap();
        assert_eq!(texts(&page.messages), ["hi"]);
    }
    let of_none = to_pull(&format!("g{NONE}"), 0, 0, 0);
    assert_not_found(pull(&node, SERVICE, of_none).await);
}

#[tokio::test]
async fn only_members_send_to_a_group() {
    let (node, [ann, bea, cid]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    assert_eq!(say(&node, ann, To::GroupId(group), "hi").await.unwrap(), 2);
    assert_eq!(say(&node, bea, To::ConversationId(format!("g{group}")), "hello").await.unwrap(), 3);
    assert_denied(say(&node, cid, To::GroupId(group), "hi").await);
    assert_not_found(say(&node, ann, To::GroupId(NONE), "hi").await);
    assert_eq!(read_all(&node, ann, &format!("g{group}")).await, ["hi", "hello"]);
}

#[tokio::test]
async fn dismissed_group_takes_and_shows_no_messages() {
    let (node, [ann, bea]) = with_users().await;
    let (group, conversation) = chat_with_id(&node, ann, &[bea]).await;
    say(&node, ann, To::GroupId(group), "hi").await.unwrap();
    dismiss(&node, SERVICE, group).await;
    assert_not_found(say(&node, ann, To::GroupId(group), "hi").await);
    assert_not_found(send(&node, SERVICE, text(To::GroupId(group), "hi")).await);
    for user in [ann, bea] {
        assert_not_found(pull(&node, user, to_pull(&conversation, 0, 0, 0)).await);
        assert_not_found(history(&node, user, &conversation, 0, 0).await);
        assert_eq!(max_seqs(&node, user, &[&conversation]).await, [Err("NOT_FOUND".to_owned())]);
    }
    assert_not_found(pull(&node, SERVICE, to_pull(&conversation, 0, 0, 0)).await);
}

#[tokio::test]
async fn only_owner_and_admins_send_to_a_channel() {
    let (node, [ann, bea, cid]) = with_users().await;
    let channel = Group { r#type: GroupType::Channel.into(), ..chess(Visibility::Public, JoinPolicy::Open) };
    let channel = make(&node, ann, channel).await;
    add(&node, channel, &[cid]).await;
    make_admin(&node, channel, bea).await;
    assert_eq!(say(&node, ann, To::GroupId(channel), "news").await.unwrap(), 3);
    assert_eq!(say(&node, bea, To::GroupId(channel), "news").await.unwrap(), 4);
    assert_denied(say(&node, cid, To::GroupId(channel), "news").await);
    assert_eq!(read_all(&node, cid, &format!("g{channel}")).await, ["news"; 2]);
}

#[tokio::test]
async fn muted_member_is_silent_until_the_mute_ends() {
    let (node, [ann, bea, cid]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    make_admin(&node, group, cid).await;
    for muted in [bea, cid] {
        mute(&node, group, muted, Some(4_000_000_000)).await;
        assert_muted(say(&node, muted, To::GroupId(group), "hi").await, 4_000_000_000);
        let for_it = SendMessageRequest { sender_id: muted, ..text(To::GroupId(group), "hi") };
        let in_a_batch = BatchSendRequest { messages: vec![for_it.clone()] };
        assert_muted(send(&node, SERVICE, for_it).await.map(|sent| sent.seq), 4_000_000_000);
        let result = node.messages().batch_send(in_a_batch).await.unwrap().into_inner().results.remove(0);
        let Some(send_result::Result::Error(error)) = result.result else { panic!("{result:?}") };
        assert_eq!(error.metadata["until"], Timestamp { seconds: 4_000_000_000, nanos: 0 }.to_string());
        mute(&node, group, muted, Some(1_000)).await;
        say(&node, muted, To::GroupId(group), "over").await.unwrap();
        mute(&node, group, muted, None).await;
        say(&node, muted, To::GroupId(group), "ended").await.unwrap();
    }
    assert_eq!(read_all(&node, ann, &format!("g{group}")).await, ["over", "ended", "over", "ended"]);
}

#[tokio::test]
async fn muted_group_takes_only_owner_and_admins() {
    let (node, [ann, bea, cid]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    make_admin(&node, group, cid).await;
    mute_all(&node, group, Some(4_000_000_000)).await;
    assert_muted(say(&node, bea, To::GroupId(group), "hi").await, 4_000_000_000);
    assert_eq!(say(&node, ann, To::GroupId(group), "hi").await.unwrap(), 3);
    assert_eq!(say(&node, cid, To::GroupId(group), "hi").await.unwrap(), 4);
    assert_eq!(send(&node, SERVICE, text(To::GroupId(group), "hi")).await.unwrap().seq, 5);
    mute(&node, group, bea, Some(4_000_000_001)).await;
    assert_muted(say(&node, bea, To::GroupId(group), "hi").await, 4_000_000_001);
    mute(&node, group, bea, None).await;
    mute_all(&node, group, None).await;
    assert_eq!(say(&node, bea, To::GroupId(group), "hi").await.unwrap(), 6);
}
