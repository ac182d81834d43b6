//! A cluster's backup, restored twice.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    checklist::Caller,
    filled::{fill, list_notices, notices},
};
use crate::cluster::{
    backup_folder::BackupFolder,
    restored::allocate,
    site::{Peer, Site, at_least, stop, with_relations},
};

async fn caller(node: &Peer) -> Caller {
    Caller::of(node).await.exact()
}

async fn noted(caller: &mut Caller) -> [Value; 2] {
    [list_notices(caller, 1).await, list_notices(caller, 2).await]
}

/// Writes what a restore undoes.
async fn change(caller: &mut Caller) {
    caller.ok("Relation/Unfollow", json!({ "userId": 1, "targetId": 2 })).await;
    caller.ok("Relation/Follow", json!({ "userId": 4, "targetId": 3 })).await;
    caller.ok("Relation/Unblock", json!({ "userId": 1, "targetId": 4 })).await;
    caller.ok("Member/UnbanMembers", json!({ "groupId": 9, "userIds": [6] })).await;
    caller.ok("Member/AddMembers", json!({ "groupId": 10, "userIds": [4, 5] })).await;
    caller.ok("Member/RemoveMembers", json!({ "groupId": 9, "userIds": [2] })).await;
    let join = json!({ "kind": "KIND_JOIN", "applicantId": 2, "groupId": 11 });
    caller.ok("Application/Apply", join).await;
    let message = json!({ "groupId": 9, "senderId": 1, "clientMessageId": "late", "body": "aGk=" });
    caller.ok("Message/SendMessage", message).await;
    caller.ok("Notice/MarkRead", json!({ "audienceId": 1, "readerId": 1, "noticeIds": [5] })).await;
    caller.ok("User/DeleteUser", json!({ "userId": 6 })).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn cluster_is_as_it_was_backed_up() {
    let site = Site::in_redis_of_tests();
    let (folder, node) = (BackupFolder::of(&site), site.node_with(with_relations).await);
    let mut calls = caller(&node).await;
    fill(&mut calls).await;
    notices(&mut calls).await;
    let mut given: BTreeSet<_> = allocate(&node, "first").await.into_iter().collect();
    let mut tokens = vec![node.rename(1, "kept").await.1];
    let (expected, read) = (calls.settled().await, noted(&mut calls).await);
    let backup = folder.back_up();
    change(&mut calls).await;
    given.extend(allocate(&node, "late").await);
    tokens.push(node.rename(1, "lost").await.1);
    node.stop().await;
    for restores in 1..=2 {
        let report = folder.restore(&backup);
        assert_eq!(report["sequences"], 1, "{report}");
        let [a, b] = site.nodes(with_relations).await;
        for node in [&a, &b] {
            let mut calls = caller(node).await;
            calls.until_answers(&expected).await;
            assert_eq!(noted(&mut calls).await, read);
            for token in &tokens {
                assert_eq!(node.read(1, at_least(token)).await.unwrap().nick_name, "kept");
            }
        }
        for (node, name) in [(&a, "late"), (&b, "later")] {
            for allocated in allocate(node, name).await {
                assert!(
                    given.insert(allocated),
                    "{allocated:?} is given out again after {restores} restores"
                );
            }
        }
        change(&mut caller(&a).await).await;
        tokens.push(a.rename(1, "lost").await.1);
        stop([a, b]).await;
    }
}
