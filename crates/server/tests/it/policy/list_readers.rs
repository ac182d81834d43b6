//! The users who may read another user's follow lists (`relations.lists`).

use kith_proto::relation::v1::*;
use kith_server::config::ListReaders;
use tonic::{Code, Status};

use crate::{
    node::{SERVICE, TestNode, assert_refused, principal},
    relation_calls::*,
};

/// Reads, as one user, another user's lists and counts, and what two users have in common.
async fn lists(node: &TestNode, reader: i64, user_id: i64, other_id: i64) -> [Result<(), Status>; 6] {
    let mut relations = node.relations();
    let following = ListFollowingRequest { user_id, ..Default::default() };
    let fans = ListFansRequest { user_id, ..Default::default() };
    let friends = ListFriendsRequest { user_id, ..Default::default() };
    let counts = CountRelationsRequest { user_id, consistency: None };
    let common = ListCommonFollowingRequest { user_id: other_id, other_id: user_id, ..Default::default() };
    let known = ListFansIFollowRequest { user_id: other_id, other_id: user_id, ..Default::default() };
    [
        relations.list_following(principal(reader, following)).await.map(drop),
        relations.list_fans(principal(reader, fans)).await.map(drop),
        relations.list_friends(principal(reader, friends)).await.map(drop),
        relations.count_relations(principal(reader, counts)).await.map(drop),
        relations.list_common_following(principal(reader, common)).await.map(drop),
        relations.list_fans_i_follow(principal(reader, known)).await.map(drop),
    ]
}

/// Starts a node. Ann and Bob are friends; Cid follows Ann, who does not follow back.
async fn node(readers: ListReaders) -> (TestNode, [i64; 3]) {
    let (node, [ann, bob, cid]) = node_with_users(|config| config.relations.lists = readers).await;
    for (from, to) in [(ann, bob), (bob, ann), (cid, ann)] {
        follow(&node, from, to).await.unwrap();
    }
    (node, [ann, bob, cid])
}

fn assert_shown(read: &[Result<(), Status>], shown: bool) {
    for result in read {
        match result {
            Ok(()) => assert!(shown, "{read:?}"),
            Err(_) if shown => panic!("{read:?}"),
            Err(refused) => assert_refused(refused, Code::PermissionDenied, "NOT_ALLOWED", None),
        }
    }
}

#[tokio::test]
async fn follow_lists_are_for_every_user_by_default() {
    let (node, [ann, bob, cid]) = node(ListReaders::default()).await;
    assert_shown(&lists(&node, cid, ann, bob).await, true);
}

#[tokio::test]
async fn follow_lists_are_for_friends_until_a_block() {
    let (node, [ann, bob, cid]) = node(ListReaders::Friends).await;
    assert_shown(&lists(&node, ann, ann, bob).await[..4], true);
    assert_shown(&lists(&node, bob, ann, bob).await, true);
    // A follower is no friend.
    assert_shown(&lists(&node, cid, ann, cid).await, false);
    // If two users are compared, both have to be friends.
    assert_shown(&lists(&node, bob, cid, ann).await, false);
    assert_shown(&lists(&node, SERVICE, ann, cid).await, true);
    block(&node, ann, bob).await;
    assert_shown(&lists(&node, bob, ann, bob).await, false);
}

#[tokio::test]
async fn follow_lists_can_be_for_their_user_alone() {
    let (node, [ann, bob, _]) = node(ListReaders::Own).await;
    assert_shown(&lists(&node, ann, ann, bob).await[..4], true);
    assert_shown(&lists(&node, ann, ann, bob).await[4..], false);
    assert_shown(&lists(&node, bob, ann, bob).await, false);
    assert_shown(&lists(&node, SERVICE, ann, bob).await, true);
}
