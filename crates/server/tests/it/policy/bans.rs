//! Banning users from groups over gRPC: a ban belongs to the group and the user, and not to the membership.

use crate::application_calls::{self, accept, apply, of_group, to_invite, to_join};
use crate::group_calls::{
    add_as, adding_all, join, members, public_group, remove_as, set_role, to_remove, with_users_who_add,
};
use crate::node::{
    self, TestNode, all_pages, assert_denied, assert_error, assert_invalid, assert_not_found, principal,
    until,
};
use crate::relation_calls::node_with_users;
use kith_proto::{group::v1::*, member::v1::*};
use prost_types::Timestamp;
use tonic::{Code, Status};

/// The year 2096, later than any test runs.
const FAR: Timestamp = Timestamp { seconds: 4_000_000_000, nanos: 0 };

fn to_ban(group_id: i64, user_ids: &[i64]) -> RemoveMembersRequest {
    RemoveMembersRequest { ban: true, ..to_remove(group_id, user_ids) }
}

async fn unban(node: &TestNode, by: i64, group_id: i64, user_ids: &[i64]) -> Result<Vec<i64>, Status> {
    let request = UnbanMembersRequest { group_id, user_ids: user_ids.to_vec(), ..Default::default() };
    Ok(node.members().unban_members(principal(by, request)).await?.into_inner().user_ids)
}

async fn bans(node: &TestNode, by: i64, group_id: i64) -> Result<Vec<Ban>, Status> {
    all_pages(async |page_token| {
        let request = ListBansRequest { group_id, page_size: 2, page_token };
        let page = node.members().list_bans(principal(by, request)).await?.into_inner();
        Ok((page.bans, page.next_page_token))
    })
    .await
}

async fn banned(node: &TestNode, by: i64, group_id: i64) -> Vec<i64> {
    bans(node, by, group_id).await.unwrap().iter().map(|ban| ban.user_id).collect()
}

#[track_caller]
fn assert_banned(refused: Result<impl std::fmt::Debug, Status>) {
    assert_error(refused, Code::FailedPrecondition, "BANNED");
}

#[tokio::test]
async fn banned_user_is_kept_out_in_every_way() {
    let (node, [ann, bob, cid]) = with_users_who_add().await;
    let open = public_group(&node, ann, JoinPolicy::Open).await;
    join(&node, open, bob).await.unwrap();
    let until = |ban_until| RemoveMembersRequest { ban_until, ..to_ban(open, &[cid]) };
    assert_eq!(remove_as(&node, ann, to_ban(open, &[bob])).await.unwrap(), [bob]);
    assert_eq!(remove_as(&node, ann, until(Some(FAR))).await.unwrap(), [0_i64; 0]);
    for user in [bob, cid] {
        assert_banned(join(&node, open, user).await);
        assert_banned(add_as(&node, ann, open, &[user]).await);
        assert_banned(apply(&node, ann, to_invite(open, user)).await);
        let by_service = JoinRequest { group_id: open, user_id: user, ..Default::default() };
        assert_banned(node.members().join(by_service).await);
    }
    assert_eq!(members(&node, open).await, [(ann, Role::Owner)]);
    let found = bans(&node, ann, open).await.unwrap();
    let listed: Vec<_> = found.iter().map(|ban| (ban.user_id, ban.banned_by, ban.until)).collect();
    assert_eq!(listed, [(bob, ann, None), (cid, ann, Some(FAR))]);
    assert_eq!(unban(&node, ann, open, &[bob, cid, ann]).await.unwrap(), [bob, cid]);
    join(&node, open, bob).await.unwrap();
    add_as(&node, ann, open, &[cid]).await.unwrap();
    assert_eq!(banned(&node, ann, open).await, Vec::<i64>::new());
}

#[tokio::test]
async fn banned_user_is_not_accepted() {
    let (node, [ann, bob, cid]) = with_users_who_add().await;
    let chess = public_group(&node, ann, JoinPolicy::Approval).await;
    let asked = apply(&node, bob, to_join(chess, "")).await.unwrap().application_id;
    let invite = apply(&node, ann, to_invite(chess, cid)).await.unwrap().application_id;
    remove_as(&node, ann, to_ban(chess, &[bob, cid])).await.unwrap();
    assert_banned(accept(&node, ann, of_group(chess), asked).await);
    assert_banned(accept(&node, cid, application_calls::of_user(cid), invite).await);
    unban(&node, ann, chess, &[bob]).await.unwrap();
    accept(&node, ann, of_group(chess), asked).await.unwrap();
    assert_eq!(members(&node, chess).await, [(ann, Role::Owner), (bob, Role::Member)]);
}

#[tokio::test]
async fn bans_need_a_role_above_and_right_fields() {
    let (node, [ann, bob, cid, dan]) = with_users_who_add().await;
    let chess = public_group(&node, ann, JoinPolicy::Open).await;
    for user in [bob, cid] {
        join(&node, chess, user).await.unwrap();
    }
    set_role(&node, chess, bob, Role::Admin).await;
    for (by, of) in [(cid, dan), (dan, cid), (bob, ann), (bob, bob)] {
        assert_denied(remove_as(&node, by, to_ban(chess, &[of])).await);
    }
    remove_as(&node, bob, to_ban(chess, &[cid, dan])).await.unwrap();
    assert_denied(unban(&node, cid, chess, &[cid]).await);
    assert_denied(bans(&node, cid, chess).await);
    assert_eq!(banned(&node, bob, chess).await, [cid, dan]);
    let chess = public_group(&node, ann, JoinPolicy::Open).await;
    let past = Some(Timestamp { seconds: 1, nanos: 0 });
    let without = RemoveMembersRequest { ban: false, ban_until: Some(FAR), ..to_ban(chess, &[bob]) };
    for request in [without, RemoveMembersRequest { ban_until: past, ..to_ban(chess, &[bob]) }] {
        assert_invalid(remove_as(&node, ann, request).await, "ban_until");
    }
    assert_not_found(remove_as(&node, ann, to_ban(chess, &[i64::MAX])).await);
    assert_eq!(banned(&node, ann, chess).await, Vec::<i64>::new());
}

#[tokio::test]
async fn bans_of_a_group_are_limited() {
    let (node, [ann, bob, cid, dan]) = node_with_users(|config| {
        adding_all(config);
        config.members.bans_max = 2;
    })
    .await;
    let chess = public_group(&node, ann, JoinPolicy::Open).await;
    remove_as(&node, ann, to_ban(chess, &[bob, cid])).await.unwrap();
    let refused = node::assert_forbidden(remove_as(&node, ann, to_ban(chess, &[dan])).await);
    assert!(refused.message().contains("at most 2 bans"), "{refused:?}");
    join(&node, chess, dan).await.unwrap();
}

#[tokio::test]
async fn bans_end_with_the_account() {
    let (node, [ann, bob, cid]) = with_users_who_add().await;
    let mut groups = Vec::new();
    for _ in 0..3 {
        let chess = public_group(&node, ann, JoinPolicy::Open).await;
        remove_as(&node, ann, to_ban(chess, &[bob, cid])).await.unwrap();
        groups.push(chess);
    }
    node.delete_user(bob).await;
    for group in groups {
        until(async || banned(&node, ann, group).await == [cid]).await;
    }
}
