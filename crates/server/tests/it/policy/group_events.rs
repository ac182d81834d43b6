//! Group events in their conversations.

use crate::dialog_calls::{conversation, counts, listed, mark_up_to};
use crate::group_calls::{add, chat, chat_with_id, join, leave, remove, rename, set_role, transfer};
use crate::message_calls::*;
use crate::node::{SERVICE, TestNode, until};
use crate::relation_calls::{node_with_users, with_users};
use kith_proto::{
    member::v1::{AddMembersRequest, RemoveMembersRequest, Role},
    message::v1::{event::What, send_message_request::To, *},
};

/// Returns a group's events, as a service reads them.
async fn events(node: &TestNode, group: i64) -> Vec<What> {
    let request = to_pull(&format!("g{group}"), 0, 0, 1_000);
    let messages = pull(node, SERVICE, request).await.unwrap().messages;
    messages.into_iter().filter_map(|message| message.event?.what).collect()
}

fn joined(user_ids: &[i64]) -> What {
    What::Joined(MembersJoined { user_ids: user_ids.to_vec() })
}

fn left(user: i64) -> What {
    What::Left(MembersLeft { user_ids: vec![user] })
}

fn removed(user_ids: &[i64]) -> What {
    What::Removed(MembersRemoved { user_ids: user_ids.to_vec() })
}

fn owner(user_id: i64) -> What {
    What::Owner(OwnerChanged { user_id })
}

fn renamed(name: &str) -> What {
    What::Group(GroupRenamed { name: name.to_owned() })
}

#[tokio::test]
async fn changes_of_a_group_are_events_in_their_order() {
    let (node, [ann, bea, cid, dan]) = with_users().await;
    let group = chat(&node, ann, &[]).await;
    assert_eq!(events(&node, group).await, [], "its creation is none");
    join(&node, group, bea).await.unwrap();
    add(&node, group, &[cid, dan]).await;
    rename(&node, group, "Go").await;
    transfer(&node, group, bea).await;
    leave(&node, group, ann).await;
    remove(&node, group, cid).await;
    let ban = RemoveMembersRequest { group_id: group, user_ids: vec![dan], ban: true, ..Default::default() };
    node.members().remove_members(ban).await.unwrap();
    let expected = [
        joined(&[bea]),
        joined(&[cid, dan]),
        renamed("Go"),
        owner(bea),
        left(ann),
        removed(&[cid]),
        removed(&[dan]),
    ];
    assert_eq!(events(&node, group).await, expected);
}

#[tokio::test]
async fn event_is_a_silent_message_of_no_sender() {
    let (node, [ann, bea]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    let messages = pull(&node, ann, to_pull(&format!("g{group}"), 0, 0, 0)).await.unwrap().messages;
    assert!(messages[0].send_time.is_some());
    let expected = Message {
        conversation_id: format!("g{group}"),
        seq: 1,
        kind: MessageKind::Event.into(),
        silent: true,
        event: Some(Event { what: Some(joined(&[bea])) }),
        send_time: messages[0].send_time,
        ..Default::default()
    };
    assert_eq!(messages, std::slice::from_ref(&expected));
    assert_eq!(listed(&node, bea).await[0].last_message, Some(expected));
}

#[tokio::test]
async fn change_that_changes_nothing_is_no_event() {
    let (node, [ann, bea, cid]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    rename(&node, group, "Go").await;
    let before = events(&node, group).await;
    add(&node, group, &[bea]).await;
    remove(&node, group, cid).await;
    rename(&node, group, "Go").await;
    transfer(&node, group, ann).await;
    set_role(&node, group, bea, Role::Admin).await;
    assert_eq!(events(&node, group).await, before);
    let group = chat(&node, ann, &[bea]).await;
    add(&node, group, &[bea, cid]).await;
    let ban =
        RemoveMembersRequest { group_id: group, user_ids: vec![bea, 987_654_321], ..Default::default() };
    node.members().remove_members(ban).await.unwrap();
    assert_eq!(events(&node, group).await, [joined(&[bea]), joined(&[cid]), removed(&[bea])]);
}

#[tokio::test]
async fn repeated_request_posts_its_event_once() {
    let (node, [ann, bea]) = with_users().await;
    let group = chat(&node, ann, &[]).await;
    let request = AddMembersRequest { group_id: group, user_ids: vec![bea], request_id: "r1".into() };
    node.members().add_members(request.clone()).await.unwrap();
    remove(&node, group, bea).await;
    for _ in 0..2 {
        node.members().add_members(request.clone()).await.unwrap();
    }
    assert_eq!(events(&node, group).await, [joined(&[bea]), removed(&[bea])]);
}

#[tokio::test]
async fn member_reads_its_join_event_not_its_removal() {
    let (node, [ann, bea, cid]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[cid]).await;
    say(&node, ann, To::GroupId(group), "before").await.unwrap();
    add(&node, group, &[bea]).await;
    let page = pull(&node, bea, to_pull(&id, 0, 0, 0)).await.unwrap();
    assert_eq!((seqs(&page.messages), page.min_seq), (vec![3], 3));
    assert_eq!(page.messages[0].event.as_ref().unwrap().what, Some(joined(&[bea])));
    remove(&node, group, bea).await;
    leave(&node, group, cid).await;
    let page = pull(&node, bea, to_pull(&id, 0, 0, 0)).await.unwrap();
    assert_eq!((seqs(&page.messages), page.max_seq), (vec![3], 3));
    let page = pull(&node, cid, to_pull(&id, 0, 0, 0)).await.unwrap();
    assert_eq!(page.max_seq, 4, "that of the removal of another member, not that of its leave");
    assert_eq!(events(&node, group).await.len(), 4);
}

#[tokio::test]
async fn events_are_never_unread() {
    let (node, [ann, bea, cid]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    say(&node, bea, To::GroupId(group), "hi").await.unwrap();
    assert_eq!(counts(&node, ann, &[]).await, [(id.clone(), 1)]);
    add(&node, group, &[cid]).await;
    rename(&node, group, "Go").await;
    assert_eq!(counts(&node, ann, &[]).await, [(id.clone(), 1)]);
    assert_eq!(conversation(&node, ann, &id).await.unwrap().unread, 1);
    assert_eq!(mark_up_to(&node, ann, &id, 2).await, (2, 0));
}

#[tokio::test]
async fn deleted_user_has_left() {
    let (node, [ann, bea]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    node.delete_user(ann).await;
    until(async || events(&node, group).await.len() >= 3).await;
    assert_eq!(events(&node, group).await, [joined(&[bea]), owner(bea), left(ann)]);
}

#[tokio::test]
async fn events_can_be_switched_off() {
    let (node, [ann, bea]) = node_with_users(|config| config.messages.events = false).await;
    let group = chat(&node, ann, &[bea]).await;
    rename(&node, group, "Go").await;
    assert_eq!(end(&node, &format!("g{group}")).await, 0);
    assert_eq!(say(&node, bea, To::GroupId(group), "hi").await.unwrap(), 1);
}
