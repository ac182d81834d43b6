//! Copies in memory expire where others can write to the store, and stay where they cannot.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod node;

use std::time::Duration;

use kith_proto::{
    admin::v1::InspectKeyRequest,
    user::v1::{GetUserRequest, UpdateUserRequest, User},
};
use node::{TestNode, until};
use prost_types::FieldMask;

const TTL: Duration = Duration::from_millis(50);

/// Tier of the answer, and its age in milliseconds.
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

    let user = Some(User { user_id: id, age: 30, ..Default::default() });
    let update_mask = Some(FieldMask { paths: vec!["age".to_owned()] });
    let request = UpdateUserRequest { user, update_mask, ..Default::default() };
    node.users().update_user(request).await.unwrap();
    assert!(read(&node, id).await.1 < 500, "a change replaces the copy");
}
