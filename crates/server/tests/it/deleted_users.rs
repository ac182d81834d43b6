//! What ends with a user: follows from and to it, and what was set about it or by it.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{fmt::Debug, path::Path, time::Duration};

use crate::node::{TestNode, assert_refused};
use kith_proto::{relation::v1::*, user::v1::DeleteUserRequest};
use kith_store::{Edge, ImportedFollow, Stores, Timestamp, UserId, Write};
use kith_store_sqlite::{SqliteHandle, SqliteOptions};
use tonic::{Code, Status};

async fn follow(node: &TestNode, user_id: i64, target_id: i64) {
    let request = FollowRequest { user_id, target_id, ..Default::default() };
    node.relations().follow(request).await.unwrap();
}

async fn relation(node: &TestNode, user_id: i64, target_id: i64) -> Relation {
    let request = GetRelationRequest { user_id, target_id, consistency: None };
    node.relations().get_relation(request).await.unwrap().into_inner().relation.unwrap()
}

async fn fans(node: &TestNode, user_id: i64) -> Vec<i64> {
    let request = ListFansRequest { user_id, ..Default::default() };
    let page = node.relations().list_fans(request).await.unwrap().into_inner();
    page.follows.iter().map(|follow| follow.user_id).collect()
}

async fn following(node: &TestNode, user_id: i64) -> Vec<i64> {
    let request = ListFollowingRequest { user_id, ..Default::default() };
    let page = node.relations().list_following(request).await.unwrap().into_inner();
    page.follows.iter().map(|follow| follow.target_id).collect()
}

async fn counts(node: &TestNode, user_id: i64) -> (i64, i64) {
    let request = CountRelationsRequest { user_id, consistency: None };
    let counts = node.relations().count_relations(request).await.unwrap().into_inner();
    (counts.following, counts.fans)
}

async fn delete(node: &TestNode, user_id: i64, expected_version: i64) -> Result<(), Status> {
    let request = DeleteUserRequest { user_id, expected_version, ..Default::default() };
    node.users().delete_user(request).await.map(drop)
}

/// Waits until what is read is as expected, not for long.
async fn settles<T: PartialEq + Debug>(expected: T, read: impl AsyncFn() -> T) {
    let settled = async {
        while read().await != expected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(20), settled).await.is_err() {
        assert_eq!(read().await, expected);
    }
}

#[tokio::test]
async fn deletion_ends_relations_and_settles_counts() {
    let node = TestNode::start().await;
    let [ann, bob, cid, dora] = users(&node).await;
    for (from, to) in [(ann, bob), (bob, ann), (cid, ann), (cid, bob)] {
        follow(&node, from, to).await;
    }
    let block = BlockRequest { user_id: ann, target_id: dora, ..Default::default() };
    node.relations().block(block).await.unwrap();
    let remark =
        SetRemarkRequest { user_id: dora, target_id: ann, remark: "a".to_owned(), ..Default::default() };
    node.relations().set_remark(remark).await.unwrap();
    // All of it is in memory now.
    assert_eq!((fans(&node, bob).await, following(&node, cid).await), (vec![cid, ann], vec![bob, ann]));
    assert_eq!((counts(&node, bob).await, counts(&node, cid).await), ((1, 2), (2, 0)));
    assert!(relation(&node, dora, ann).await.blocked_by_target);
    assert!(relation(&node, bob, ann).await.friends);

    delete(&node, ann, 0).await.unwrap();
    settles((vec![cid], vec![bob]), async || (fans(&node, bob).await, following(&node, cid).await)).await;
    settles((vec![], vec![]), async || (fans(&node, ann).await, following(&node, bob).await)).await;
    settles(((0, 1), (1, 0)), async || (counts(&node, bob).await, counts(&node, cid).await)).await;
    settles((false, 0), async || {
        let relation = relation(&node, dora, ann).await;
        (relation.blocked_by_target, relation.settings.unwrap().version)
    })
    .await;
    let left = relation(&node, bob, ann).await;
    assert_eq!((left.follow, left.followed_by, left.friends), (None, None, false));
    assert!(relation(&node, cid, bob).await.follow.is_some());
}

async fn users<const N: usize>(node: &TestNode) -> [i64; N] {
    let mut ids = [0; N];
    for (at, id) in ids.iter_mut().enumerate() {
        *id = node.user(&format!("user{at}")).await.user_id;
    }
    ids
}

#[tokio::test]
async fn a_deletion_that_is_refused_ends_nothing() {
    let node = TestNode::start().await;
    let [ann, bob, cid] = users(&node).await;
    for (from, to) in [(ann, bob), (cid, bob)] {
        follow(&node, from, to).await;
    }
    let refused = delete(&node, ann, 99).await.unwrap_err();
    assert_refused(&refused, Code::Aborted, "VERSION_CONFLICT", None);
    // The first was noted before, so that it has been come to.
    delete(&node, cid, 0).await.unwrap();
    settles(vec![ann], async || fans(&node, bob).await).await;
    assert_eq!(following(&node, ann).await, [bob]);
}

fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

fn edge(from: i64, to: i64) -> Edge {
    Edge::new(user(from), user(to)).unwrap()
}

async fn open(data_dir: &Path) -> (SqliteHandle, Stores) {
    let handle = kith_store_sqlite::open(SqliteOptions::new(data_dir.join("kith.db"))).await.unwrap();
    let stores = handle.stores();
    (handle, stores)
}

#[tokio::test]
async fn unfinished_cleanup_ends_after_a_restart() {
    let node = TestNode::start().await;
    let [ann, bob, cid, dora, eve] = users(&node).await;
    let folder = node.stop().await;
    let data_dir = folder.path().join("data");
    let (handle, stores) = open(&data_dir).await;
    // More than one step ends.
    let fans_of_ann = (1..=700).map(|fan| (1_000_000 + fan, ann));
    let all = fans_of_ann.chain([(ann, bob), (cid, bob), (dora, bob), (eve, bob)]);
    let all: Vec<_> =
        all.map(|(from, to)| ImportedFollow { edge: edge(from, to), since: Timestamp(1) }).collect();
    stores.follows.import_follows(&all, Timestamp(1_000)).await.unwrap();
    let now = Timestamp::now();
    // The deletions of ann and eve landed, that of cid did not, that of dora may be on its way.
    for (deleted, at) in [(ann, Timestamp(5)), (cid, Timestamp(6)), (eve, Timestamp(7)), (dora, now)] {
        stores.edges.note_removal(user(deleted), at).await.unwrap();
    }
    for (deleted, at) in [(ann, Timestamp(5)), (eve, Timestamp(7))] {
        stores.users.delete_user(user(deleted), now, Write::at(at)).await.unwrap();
    }
    handle.close().await;

    let restarted = data_dir.clone();
    let node = TestNode::start_with(|config| config.data_dir = restarted).await;
    settles(vec![dora, cid], async || fans(&node, bob).await).await;
    assert_eq!(counts(&node, ann).await, (0, 0));
    node.stop().await;
    let (handle, stores) = open(&data_dir).await;
    // Notes are come to one after the other, so that those before that of eve are done with.
    let left: Vec<_> = stores.edges.removals(100).await.unwrap().iter().map(|(user, _)| user.get()).collect();
    assert!(left == [dora] || left == [eve, dora], "{left:?}");
    handle.close().await;
}
