//! How long copies stay in memory. One kind of record may take all the memory.

use std::time::Duration;

use crate::node::{TestNode, until, update_of_user};
use kith_proto::{
    admin::v1::{GetCacheStatsRequest, InspectKeyRequest},
    group::v1::Group,
    member::v1::BatchIsMemberRequest,
    user::v1::{GetUserRequest, User},
};

const TTL: Duration = Duration::from_millis(50);

/// Returns the answer's tier, and its age in milliseconds.
async fn read(node: &TestNode, user_id: i64) -> (String, u64) {
    let answer = node.users().get_user(GetUserRequest { user_id, consistency: None }).await.unwrap();
    let text = |name: &str| answer.metadata().get(name).unwrap().to_str().unwrap().to_owned();
    (text("kith-tier"), text("kith-age-ms").parse().unwrap())
}

#[tokio::test]
async fn copies_expire_only_where_others_can_write() {
    let locked = std::env::vars().all(|(name, _)| name != "KITH_TEST_STORE");
    let node = TestNode::start_with(|config| {
        config.cache.ttl = TTL;
        config.cache.early_refresh = 1.0;
    })
    .await;
    let id = node.user("ann").await.user_id;
    let (mut oldest, mut loaded) = (0, 0);
    until(async || {
        let (tier, age) = read(&node, id).await;
        loaded += u32::from(tier == "store");
        oldest = oldest.max(age);
        if locked { oldest > 500 } else { loaded > 1 }
    })
    .await;
    assert_eq!(locked, loaded == 0, "the copy that the creation left was read {loaded} times again");

    let request = InspectKeyRequest { key: format!("user/{id}"), ..Default::default() };
    let copies = node.admin().inspect_key(request).await.unwrap().into_inner().copies;
    assert!(!locked || copies[0].ttl.is_none(), "{copies:?}");

    let user = User { user_id: id, age: 30, ..Default::default() };
    node.users().update_user(update_of_user(user, &["age"])).await.unwrap();
    assert!(read(&node, id).await.1 < 500, "a change replaces the copy");
}

/// Asks whether users are group members; each is asked for, and cached, separately.
async fn ask_for_members(node: &TestNode, group_id: i64) {
    for from in [1, 401] {
        let user_ids = (from..from + 400).collect();
        let request = BatchIsMemberRequest { group_id, user_ids, consistency: None };
        node.members().batch_is_member(request).await.unwrap();
    }
}

#[tokio::test]
async fn members_use_memory_that_others_do_not() {
    let node = TestNode::start_with_relations(|config| config.cache.memory_bytes = 512 << 10).await;
    let group_id = node.group(Group { name: "go".to_owned(), ..Default::default() }).await.group_id;
    until(async || {
        ask_for_members(&node, group_id).await;
        let request = GetCacheStatsRequest::default();
        let stats = node.admin().get_cache_stats(request).await.unwrap().into_inner().namespaces;
        let all: i64 = stats.iter().map(|of| of.weight_bytes).sum();
        assert!(all <= 512 << 10, "{all} bytes");
        let members = stats.into_iter().find(|of| of.namespace == "member").unwrap();
        // A user in no group has no record, only key and bookkeeping.
        assert!(members.weight_bytes <= 352 * members.entries, "{} bytes", members.weight_bytes);
        members.entries >= 800
    })
    .await;
}
