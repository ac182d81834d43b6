//! Changes reach nodes from elsewhere, and nodes find differences by comparison.

use std::time::Duration;

use kith_proto::{
    admin::v1::{InspectKeyRequest, Presence, ResyncRequest},
    group::v1::{CreateGroupRequest, Group, KeywordMatch, SearchGroupsRequest, Visibility},
    user::v1::{CreateUserRequest, User},
};

use crate::{
    cluster::{
        hand,
        site::{Peer, Site, stop, until_all_follow},
    },
    polls::until,
};

/// How long a change made outside the nodes may take.
const BY_HAND: Duration = Duration::from_secs(11);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn feed_is_read_on_after_a_drop() {
    let site = Site::in_redis_of_tests();
    let (a, b) = site.pair().await;
    let id = a.create("ann").await.user_id;
    for round in 0..2 {
        b.get(id).await;
        hand::drop_collection(&site.database, "groups");
        let nick = format!("by hand {round}");
        hand::set(&site.database, "users", id, "nick", &nick);
        for peer in [&a, &b] {
            until(BY_HAND, async || peer.get(id).await.nick_name == nick).await;
        }
    }
    let remarks = [&a, &b].map(|peer| peer.node.remarks());
    assert!(remarks.iter().flatten().all(|remark| remark.reason != "feed_unread"), "{remarks:?}");
    let metrics = b.operations("/metrics").await;
    assert!(metrics.contains("kith_feed_unread_seconds{feed=\"change_feed\"}"), "{metrics}");
    // The next reader does not read up to the drop again.
    a.stop().await;
    hand::set(&site.database, "users", id, "nick", "at last");
    until(BY_HAND, async || b.get(id).await.nick_name == "at last").await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn names_stay_unique_after_a_drop() {
    let site = Site::in_redis_of_tests();
    let (a, b) = site.pair().await;
    let before = b.info().await.epoch;
    hand::drop_collection(&site.database, "users");
    until(BY_HAND, async || b.info().await.epoch > before).await;
    until_all_follow([&a, &b]).await;
    a.create("ann").await;
    let user = Some(User { user_name: "ann".to_owned(), ..User::default() });
    let again = CreateUserRequest { user, ..CreateUserRequest::default() };
    assert_eq!(b.users().create_user(again).await.unwrap_err().code(), tonic::Code::AlreadyExists);
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn feed_is_read_on_when_its_reader_stops() {
    let site = Site::in_redis_of_tests();
    let (a, b) = site.pair().await;
    let id = a.create("ann").await.user_id;
    b.get(id).await;
    let before = b.info().await.epoch;
    a.stop().await;
    hand::set(&site.database, "users", id, "nick", "by hand");
    until(BY_HAND, async || b.get(id).await.nick_name == "by hand").await;
    assert_eq!(
        b.info().await.epoch,
        before,
        "where the first had come to is known, so that nothing is given up"
    );
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn new_group_is_found_on_the_other_node() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    assert!(found(&b, "chess").await.is_empty(), "that there is none is in its memory now");
    let group = Group {
        name: "Chess".to_owned(),
        visibility: Visibility::Public.into(),
        tags: vec!["board".to_owned()],
        ..Group::default()
    };
    let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
    let made = a.groups().create_group(request).await.unwrap().into_inner().group.unwrap();
    until(Duration::from_secs(1), async || found(&b, "chess").await == [made.group_id]).await;
    until(Duration::from_secs(1), async || found(&b, "board").await == [made.group_id]).await;
    stop([a, b]).await;
}

async fn found(peer: &Peer, keyword: &str) -> Vec<i64> {
    let request = SearchGroupsRequest {
        keyword: keyword.to_owned(),
        r#match: KeywordMatch::Exact.into(),
        ..SearchGroupsRequest::default()
    };
    let answer = peer.groups().search_groups(request).await.unwrap().into_inner();
    answer.groups.iter().map(|group| group.group_id).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn healthy_nodes_find_nothing_stale_in_a_resync() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    for number in 0..30 {
        let id = a.create(&format!("user{number}")).await.user_id;
        b.get(id).await;
        a.rename(id, "new").await;
        until(Duration::from_secs(1), async || b.get(id).await.nick_name == "new").await;
    }
    for peer in [&a, &b] {
        let request = ResyncRequest { namespace: "user".to_owned(), full: true };
        let compared = peer.admin().resync(request).await.unwrap().into_inner().namespaces;
        let of_users = &compared[0];
        assert!(of_users.checked >= 30 && of_users.complete, "{of_users:?}");
        assert_eq!((of_users.stale, of_users.unanswered.as_str()), (0, ""), "{of_users:?}");
    }
    let unknown = ResyncRequest { namespace: "pets".to_owned(), full: false };
    assert_eq!(a.admin().resync(unknown).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn invalidated_key_is_gone_from_every_tier() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let id = a.create("ann").await.user_id;
    b.get(id).await;
    let key = format!("user/{id}");
    let request = kith_proto::admin::v1::InvalidateKeyRequest { key: key.clone() };
    a.admin().invalidate_key(request).await.unwrap();
    let request = InspectKeyRequest { key, node_id: String::new(), memory_only: false };
    until(Duration::from_secs(1), async || {
        let found = a.admin().inspect_key(request.clone()).await.unwrap().into_inner();
        let copies = found.copies.iter().chain(&found.others[0].copies);
        copies.filter(|copy| copy.tier != "store").all(|copy| copy.presence() == Presence::None)
    })
    .await;
    stop([a, b]).await;
}
