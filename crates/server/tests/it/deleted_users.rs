//! A deleted user's follows and fans end, and so do the settings about it or by it.

use std::{fmt::Debug, time::Duration};

use crate::bare_node::in_store;
use crate::node::{TestNode, assert_error};
use crate::relation_calls::{block, counts, fans, follow, following, relation, with_users};
use kith_proto::{relation::v1::SetRemarkRequest, user::v1::DeleteUserRequest};
use kith_store::{Edge, ImportedFollow, Timestamp, UserId, Write};
use tonic::{Code, Status};

async fn delete(node: &TestNode, user_id: i64, expected_version: i64) -> Result<(), Status> {
    let request = DeleteUserRequest { user_id, expected_version, ..Default::default() };
    node.users().delete_user(request).await.map(drop)
}

/// Waits, not for long, until a read is as expected.
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
    let (node, [ann, bob, cid, dora]) = with_users().await;
    for (from, to) in [(ann, bob), (bob, ann), (cid, ann), (cid, bob)] {
        follow(&node, from, to).await.unwrap();
    }
    block(&node, ann, dora).await;
    let remark =
        SetRemarkRequest { user_id: dora, target_id: ann, remark: "a".to_owned(), ..Default::default() };
    node.relations().set_remark(remark).await.unwrap();
    // All these records are in memory now.
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

#[tokio::test]
async fn a_deletion_that_is_refused_ends_nothing() {
    let (node, [ann, bob, cid]) = with_users().await;
    for (from, to) in [(ann, bob), (cid, bob)] {
        follow(&node, from, to).await.unwrap();
    }
    assert_error(delete(&node, ann, 99).await, Code::Aborted, "VERSION_CONFLICT");
    // The first deletion was recorded before, so it has been handled.
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

#[tokio::test]
async fn unfinished_cleanup_ends_after_a_restart() {
    let (node, [ann, bob, cid, dora, eve]) = with_users().await;
    let folder = node.stop().await;
    // There is more to remove than one step does.
    let fans_of_ann = (1..=700).map(|fan| (1_000_000 + fan, ann));
    let all = fans_of_ann.chain([(ann, bob), (cid, bob), (dora, bob), (eve, bob)]);
    let all: Vec<_> =
        all.map(|(from, to)| ImportedFollow { edge: edge(from, to), since: Timestamp(1) }).collect();
    let now = Timestamp::now();
    in_store(&folder, async |stores| {
        stores.follows.import_follows(&all, Timestamp(1_000)).await.unwrap();
        // The deletions of ann and eve landed, cid's did not, dora's may be on its way.
        for (deleted, at) in [(ann, Timestamp(5)), (cid, Timestamp(6)), (eve, Timestamp(7)), (dora, now)] {
            stores.edges.note_removal(user(deleted), at).await.unwrap();
        }
        for (deleted, at) in [(ann, Timestamp(5)), (eve, Timestamp(7))] {
            stores.users.delete_user(user(deleted), now, Write::at(at)).await.unwrap();
        }
    })
    .await;

    let node = TestNode::start_over(&folder).await;
    settles(vec![dora, cid], async || fans(&node, bob).await).await;
    assert_eq!(counts(&node, ann).await, (0, 0));
    node.stop().await;
    let left = in_store(&folder, async |stores| stores.edges.removals(100).await.unwrap()).await;
    let left: Vec<_> = left.iter().map(|(user, _)| user.get()).collect();
    // Notes are handled in turn, so the notes before eve's are done.
    assert!(left == [dora] || left == [eve, dora], "{left:?}");
}
