//! Relation calls that tests share.

use kith_proto::{relation::v1::*, r#type::v1::import_result};
use kith_server::config::Config;
use tonic::Status;

use crate::node::{TestNode, all_pages, until};

/// Starts a node with users. Returns their ids.
pub async fn with_users<const N: usize>() -> (TestNode, [i64; N]) {
    node_with_users(|_| {}).await
}

/// Like [`with_users`], but with another configuration.
pub async fn node_with_users<const N: usize>(change: impl FnOnce(&mut Config)) -> (TestNode, [i64; N]) {
    let node = TestNode::start_with_relations(change).await;
    let ids = users(&node).await;
    (node, ids)
}

pub async fn users<const N: usize>(node: &TestNode) -> [i64; N] {
    let mut ids = [0; N];
    for (at, id) in ids.iter_mut().enumerate() {
        *id = node.user(&format!("user{at}")).await.user_id;
    }
    ids
}

pub fn to_follow(user_id: i64, target_id: i64) -> FollowRequest {
    FollowRequest { user_id, target_id, request_id: String::new() }
}

pub async fn follow(node: &TestNode, user_id: i64, target_id: i64) -> Result<Follow, Status> {
    let answer = node.relations().follow(to_follow(user_id, target_id)).await?;
    Ok(answer.into_inner().follow.unwrap())
}

pub async fn unfollow(node: &TestNode, user_id: i64, target_id: i64) -> Result<i64, Status> {
    let request = UnfollowRequest { user_id, target_id, ..Default::default() };
    Ok(node.relations().unfollow(request).await?.into_inner().version)
}

pub async fn block(node: &TestNode, user_id: i64, target_id: i64) -> BlockResponse {
    let request = BlockRequest { user_id, target_id, ..Default::default() };
    node.relations().block(request).await.unwrap().into_inner()
}

pub async fn unblock(node: &TestNode, user_id: i64, target_id: i64) {
    let request = UnblockRequest { user_id, target_id, ..Default::default() };
    node.relations().unblock(request).await.unwrap();
}

pub async fn unfriend(node: &TestNode, user_id: i64, friend_id: i64) {
    let request = UnfriendRequest { user_id, friend_id, ..Default::default() };
    node.relations().unfriend(request).await.unwrap();
}

pub async fn do_not_disturb(node: &TestNode, user_id: i64, target_id: i64, do_not_disturb: bool) {
    let request = SetDoNotDisturbRequest { user_id, target_id, do_not_disturb, ..Default::default() };
    node.relations().set_do_not_disturb(request).await.unwrap();
}

pub async fn relation(node: &TestNode, user_id: i64, target_id: i64) -> Relation {
    let request = GetRelationRequest { user_id, target_id, consistency: None };
    node.relations().get_relation(request).await.unwrap().into_inner().relation.unwrap()
}

pub async fn allowed(node: &TestNode, user_id: i64, target_id: i64, permissions: u32) -> (bool, u32) {
    let request = CheckPermissionRequest { user_id, target_id, permissions, consistency: None };
    let answer = node.relations().check_permission(request).await.unwrap().into_inner();
    (answer.allowed, answer.denied)
}

pub async fn following(node: &TestNode, user_id: i64) -> Vec<i64> {
    let request = ListFollowingRequest { user_id, ..Default::default() };
    let page = node.relations().list_following(request).await.unwrap().into_inner();
    page.follows.iter().map(|follow| follow.target_id).collect()
}

pub async fn fans(node: &TestNode, user_id: i64) -> Vec<i64> {
    let request = ListFansRequest { user_id, ..Default::default() };
    let page = node.relations().list_fans(request).await.unwrap().into_inner();
    page.follows.iter().map(|follow| follow.user_id).collect()
}

pub async fn counts(node: &TestNode, user_id: i64) -> (i64, i64) {
    let request = CountRelationsRequest { user_id, consistency: None };
    let counts = node.relations().count_relations(request).await.unwrap().into_inner();
    (counts.following, counts.fans)
}

/// Waits until these users have these counts.
pub async fn counts_become<const N: usize>(node: &TestNode, expected: [(i64, (i64, i64)); N]) {
    for (user, of_user) in expected {
        until(async || counts(node, user).await == of_user).await;
    }
}

pub async fn friends(node: &TestNode, user_id: i64, page_size: i32) -> Vec<i64> {
    let all = all_pages(async |page_token| {
        let request = ListFriendsRequest { user_id, page_size, page_token, ..Default::default() };
        let page = node.relations().list_friends(request).await?.into_inner();
        assert!(!page.partial && page.user_ids.len() <= usize::try_from(page_size).unwrap().max(50));
        Ok((page.user_ids, page.next_page_token))
    });
    all.await.unwrap()
}

pub async fn import(node: &TestNode, follows: impl IntoIterator<Item = (i64, i64)>) -> Vec<Option<i64>> {
    let record = |(at, (user_id, target_id))| ImportFollow {
        record: at,
        user_id,
        target_id,
        follow_time: Some(prost_types::Timestamp { seconds: 1_000_000, nanos: 0 }),
    };
    let records: Vec<ImportFollow> = (0..).zip(follows).map(record).collect();
    let messages: Vec<_> =
        records.chunks(500).map(|records| ImportFollowsRequest { records: records.to_vec() }).collect();
    let stream = tokio_stream::iter(messages);
    let mut answers = node.relations().import_follows(stream).await.unwrap().into_inner();
    let mut results = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        results.extend(answer.results.into_iter().map(|result| match result.result.unwrap() {
            import_result::Result::Id(id) => Some(id),
            import_result::Result::Error(_) => None,
        }));
    }
    results
}
