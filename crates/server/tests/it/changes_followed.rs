//! What systems read that follow every change.

use kith_proto::{
    change::v1::{Change, ChangeKind},
    group::v1::JoinPolicy,
    message::v1::send_message_request::To,
    user::v1::User,
};

use crate::{
    change_calls::{cursor, keeping, until_seen},
    dialog_calls::{mark_up_to, trim},
    group_calls::{join, public_group},
    message_calls::{direct, edit, recall, say, to_edit},
    node::{SERVICE, TestNode, update_of_user},
    notice_calls::{audience, new_notice, publish},
    reaction_calls::react,
    relation_calls::{block, follow, node_with_users},
};

/// What identifies the records of a kind.
fn keys(changes: &[Change], kind: ChangeKind) -> Vec<(i64, i64, i64, String, i64)> {
    let of_kind = changes.iter().filter(|change| change.kind() == kind);
    of_kind
        .map(|change| {
            let other = change.other_user_id + i64::from(change.audience_id) + change.notice_id;
            (change.group_id, change.user_id, other, change.conversation_id.clone(), change.last_seq)
        })
        .collect()
}

#[tokio::test]
async fn each_kind_of_write_is_read_after_it() {
    let (node, [ann, bea]) = node_with_users(keeping).await;
    let begin = cursor(&node).await;
    let cid = node.user("cid").await.user_id;
    let group = public_group(&node, ann, JoinPolicy::Open).await;
    join(&node, group, bea).await.unwrap();
    follow(&node, ann, bea).await.unwrap();
    block(&node, bea, cid).await;
    audience(&node, 1, false).await;
    let notice = publish(&node, new_notice(&[1])).await.notice_id;
    let both = direct(ann, bea);
    let seq = say(&node, ann, To::UserId(bea), "hello").await.unwrap();
    mark_up_to(&node, bea, &both, seq).await;
    react(&node, bea, &both, seq, "a").await.unwrap();
    trim(&node, SERVICE, &both, seq).await.unwrap();
    let last = node.user("last").await.user_id;
    let seen = until_seen(&node, &begin, |change| change.user_id == last).await;

    let none = String::new;
    let has = |kind, key| assert!(keys(&seen, kind).contains(&key), "{kind:?} {key:?}: {seen:#?}");
    has(ChangeKind::User, (0, cid, 0, none(), 0));
    has(ChangeKind::Group, (group, 0, 0, none(), 0));
    has(ChangeKind::Member, (group, bea, 0, none(), 0));
    has(ChangeKind::Follow, (0, ann, bea, none(), 0));
    has(ChangeKind::Block, (0, bea, cid, none(), 0));
    has(ChangeKind::Audience, (0, 0, 1, none(), 0));
    has(ChangeKind::Notice, (0, 0, notice, none(), 0));
    has(ChangeKind::Messages, (0, 0, 0, both.clone(), seq));
    has(ChangeKind::Reaction, (0, 0, 0, both.clone(), 100));
    has(ChangeKind::Dialog, (0, bea, 0, both.clone(), 0));
    has(ChangeKind::Conversation, (0, 0, 0, both, 0));
    assert!(seen.iter().all(|change| !change.by_hand && change.position.len() <= 100));
    node.stop().await;
}

#[tokio::test]
async fn changes_of_a_record_keep_their_order() {
    let (node, [ann]) = node_with_users(keeping).await;
    let begin = cursor(&node).await;
    for age in 1..=20 {
        let user = User { user_id: ann, age, ..Default::default() };
        node.users().update_user(update_of_user(user, &["age"])).await.unwrap();
    }
    let seen = until_seen(&node, &begin, |change| change.version == 21).await;
    let versions: Vec<_> = seen.iter().map(|change| change.version).collect();
    assert!(versions.is_sorted() && versions.contains(&2), "{versions:?}");
    node.stop().await;
}

#[tokio::test]
async fn changed_messages_come_as_their_events() {
    let (node, [ann, bea]) = node_with_users(keeping).await;
    let both = direct(ann, bea);
    let seq = say(&node, ann, To::UserId(bea), "secret words").await.unwrap();
    let begin = cursor(&node).await;
    edit(&node, ann, to_edit(&both, seq, "other words")).await.unwrap();
    recall(&node, ann, &both, seq).await.unwrap();
    let is_last = |change: &Change| change.kind() == ChangeKind::Messages && change.last_seq == seq + 2;
    let seen = until_seen(&node, &begin, is_last).await;
    let numbers = keys(&seen, ChangeKind::Messages);
    assert_eq!(numbers.last(), Some(&(0, 0, 0, both, seq + 2)), "{seen:?}");
    node.stop().await;
}

#[tokio::test]
async fn no_page_has_a_word_of_a_person() {
    let (node, [ann, bea]) = node_with_users(keeping).await;
    let begin = cursor(&node).await;
    let user = User { user_name: "Persephone".into(), nick_name: "Proserpina".into(), ..Default::default() };
    let request = kith_proto::user::v1::CreateUserRequest { user: Some(user), ..Default::default() };
    let user = node.users().create_user(request).await.unwrap().into_inner().user.unwrap().user_id;
    say(&node, user, To::UserId(ann), "pomegranate").await.unwrap();
    follow(&node, user, bea).await.unwrap();
    node.delete_user(user).await;
    let is_deletion =
        |change: &Change| change.kind() == ChangeKind::User && change.user_id == user && change.version > 1;
    let seen = until_seen(&node, &begin, is_deletion).await;
    let text = format!("{seen:?}");
    for word in ["Persephone", "persephone", "Proserpina", "pomegranate"] {
        assert!(!text.contains(word), "{text}");
    }
    node.stop().await;
}

#[tokio::test]
async fn changes_are_off_unless_configured() {
    let node = TestNode::start().await;
    let refused = node.changes().get_cursor(kith_proto::change::v1::GetCursorRequest {}).await;
    let refused = crate::node::assert_error(refused, tonic::Code::FailedPrecondition, "NOT_CONFIGURED");
    assert!(refused.message().contains("changes.kept"), "{refused:?}");
    node.stop().await;
}
