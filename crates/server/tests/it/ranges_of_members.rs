//! From where new members of a group may read.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::node::{TestNode, principal};
use crate::relation_calls::users;
use kith_proto::{group::v1::*, member::v1::*};
use kith_store::{GroupId, MemberKey, UserId};
use kith_store_sqlite::SqliteOptions;
use prost_types::FieldMask;

/// A public group that users may join, which shows earlier messages to new members or not.
async fn made(node: &TestNode, owner: i64, history_for_new_members: bool) -> i64 {
    let group = Group {
        name: "Chess".into(),
        visibility: Visibility::Public.into(),
        join_policy: JoinPolicy::Open.into(),
        history_for_new_members,
        ..Default::default()
    };
    let request = CreateGroupRequest { group: Some(group), ..Default::default() };
    node.groups().create_group(principal(owner, request)).await.unwrap().into_inner().group.unwrap().group_id
}

async fn set_history(node: &TestNode, owner: i64, group_id: i64, history_for_new_members: bool) {
    let group = Group { group_id, history_for_new_members, ..Default::default() };
    let update_mask = Some(FieldMask { paths: vec!["history_for_new_members".into()] });
    let request = UpdateGroupRequest { group: Some(group), update_mask, ..Default::default() };
    node.groups().update_group(principal(owner, request)).await.unwrap();
    let request = GetGroupRequest { group_id, consistency: None };
    let read = node.groups().get_group(request).await.unwrap().into_inner().group.unwrap();
    assert_eq!(read.history_for_new_members, history_for_new_members);
}

async fn join(node: &TestNode, group_id: i64, user_id: i64) {
    let request = JoinRequest { group_id, user_id, ..Default::default() };
    node.members().join(principal(user_id, request)).await.unwrap();
}

async fn add(node: &TestNode, owner: i64, group_id: i64, user_id: i64) {
    let request = AddMembersRequest { group_id, user_ids: vec![user_id], ..Default::default() };
    node.members().add_members(principal(owner, request)).await.unwrap();
}

fn key((group, user): (i64, i64)) -> MemberKey {
    MemberKey { group: GroupId::new(group).unwrap(), user: UserId::new(user).unwrap() }
}

#[tokio::test]
async fn history_setting_at_join_decides_the_range() {
    let node = TestNode::start_with(|config| config.messages.events = false).await;
    let [owner, ann, bob, cid, dora] = users(&node).await;
    let [shown, hidden] = [made(&node, owner, true).await, made(&node, owner, false).await];
    join(&node, shown, ann).await;
    add(&node, owner, shown, bob).await;
    join(&node, hidden, ann).await;
    set_history(&node, owner, shown, false).await;
    set_history(&node, owner, hidden, true).await;
    join(&node, shown, cid).await;
    add(&node, owner, hidden, dora).await;

    let folder = node.stop().await;
    let path = folder.path().join("data").join("kith.db");
    let handle = kith_store_sqlite::open(SqliteOptions::new(path)).await.unwrap();
    // 0: from the first message; the logs are empty, so that each range begins with message 1 else.
    let expected = [
        ((shown, owner), 0),
        ((shown, ann), 0),
        ((shown, bob), 0),
        ((shown, cid), 1),
        ((hidden, owner), 1),
        ((hidden, ann), 1),
        ((hidden, dora), 0),
    ];
    for (of, from_seq) in expected {
        let found = handle.stores().members.members(&[key(of)]).await.unwrap();
        let member = found[0].1.clone().live().unwrap();
        assert_eq!((member.from_seq, member.joined_seq), (from_seq, 1), "{of:?}");
    }
    handle.close().await;
}
