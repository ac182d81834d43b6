//! Which users read the follow lists of another one (`relations.lists`).

use kith_proto::relation::v1::*;
use kith_server::config::ListReaders;
use tonic::{Code, Request, Status};

use crate::{
    node::{TestNode, assert_refused, principal},
    relation_calls::*,
};

/// The lists and counts of a user, and what two users have in common, each read by the same one.
async fn lists(node: &TestNode, reader: Option<i64>, user_id: i64, other_id: i64) -> [Result<(), Status>; 6] {
    let mut relations = node.relations();
    let following = ListFollowingRequest { user_id, ..Default::default() };
    let fans = ListFansRequest { user_id, ..Default::default() };
    let friends = ListFriendsRequest { user_id, ..Default::default() };
    let counts = CountRelationsRequest { user_id, consistency: None };
    let common = ListCommonFollowingRequest { user_id: other_id, other_id: user_id, ..Default::default() };
    let known = ListFansIFollowRequest { user_id: other_id, other_id: user_id, ..Default::default() };
    [
        relations.list_following(by(reader, following)).await.map(drop),
        relations.list_fans(by(reader, fans)).await.map(drop),
        relations.list_friends(by(reader, friends)).await.map(drop),
        relations.count_relations(by(reader, counts)).await.map(drop),
        relations.list_common_following(by(reader, common)).await.map(drop),
        relations.list_fans_i_follow(by(reader, known)).await.map(drop),
    ]
}

fn by<T>(reader: Option<i64>, message: T) -> Request<T> {
    match reader {
        Some(user) => principal(user, message),
        None => Request::new(message),
    }
}

/// Ann and Bob are friends; Cid follows Ann, who does not follow back.
async fn node(readers: ListReaders) -> (TestNode, [i64; 3]) {
    let node = TestNode::start_with_relations(|config| config.relations.lists = readers).await;
    let [ann, bob, cid] = users(&node).await;
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
    assert_shown(&lists(&node, Some(cid), ann, bob).await, true);
}

#[tokio::test]
async fn follow_lists_are_for_friends_until_a_block() {
    let (node, [ann, bob, cid]) = node(ListReaders::Friends).await;
    assert_shown(&lists(&node, Some(ann), ann, bob).await[..4], true);
    assert_shown(&lists(&node, Some(bob), ann, bob).await, true);
    // One who follows is no friend.
    assert_shown(&lists(&node, Some(cid), ann, cid).await, false);
    // Of two users, both have to be friends.
    assert_shown(&lists(&node, Some(bob), cid, ann).await, false);
    assert_shown(&lists(&node, None, ann, cid).await, true);
    block(&node, ann, bob).await;
    assert_shown(&lists(&node, Some(bob), ann, bob).await, false);
}

#[tokio::test]
async fn follow_lists_can_be_for_their_user_alone() {
    let (node, [ann, bob, _]) = node(ListReaders::Own).await;
    assert_shown(&lists(&node, Some(ann), ann, bob).await[..4], true);
    assert_shown(&lists(&node, Some(ann), ann, bob).await[4..], false);
    assert_shown(&lists(&node, Some(bob), ann, bob).await, false);
    assert_shown(&lists(&node, None, ann, bob).await, true);
}
