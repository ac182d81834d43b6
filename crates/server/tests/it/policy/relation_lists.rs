//! Relation lists over gRPC, page by page.

use crate::node::{TestNode, all_pages, assert_invalid};
use crate::relation_calls::*;
use kith_proto::{admin::v1::GetCacheStatsRequest, relation::v1::*};

/// Counts the relation keys that the store has answered so far.
async fn store_reads(node: &TestNode) -> i64 {
    let stats = node.admin().get_cache_stats(GetCacheStatsRequest {}).await.unwrap().into_inner();
    stats.namespaces.iter().map(|namespace| namespace.store_reads).sum()
}

#[tokio::test]
async fn friends_are_reread_without_the_store() {
    let node = TestNode::start_with_relations(|_| {}).await;
    let both_ways = (2..502).flat_map(|user| [(1, user), (user, 1)]);
    import(&node, both_ways).await;
    counts_become(&node, [(1, (500, 500))]).await;
    assert_eq!(friends(&node, 1, 100).await.len(), 500);
    let before = store_reads(&node).await;
    assert_eq!(friends(&node, 1, 100).await.len(), 500);
    assert_eq!(store_reads(&node).await, before);
}

#[tokio::test]
async fn lists_are_newest_first_with_own_tokens() {
    let node = TestNode::start_with_relations(|_| {}).await;
    assert_eq!(import(&node, (2..=31).map(|user| (user, 1))).await.len(), 30);
    let found = all_pages(async |page_token| {
        let request = ListFansRequest { user_id: 1, page_size: 7, page_token, ..Default::default() };
        let page = node.relations().list_fans(request).await?.into_inner();
        let page_token = page.next_page_token.clone();
        if !page_token.is_empty() {
            assert_eq!(page.follows.len(), 7);
            let other = ListFansRequest { user_id: 2, page_size: 7, page_token, ..Default::default() };
            assert_invalid(node.relations().list_fans(other).await, "page_token");
        }
        Ok((page.follows, page.next_page_token))
    });
    let found = found.await.unwrap().into_iter().map(|follow| follow.user_id);
    assert_eq!(found.collect::<Vec<_>>(), (2..=31).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn common_users_are_paged_from_either_list() {
    let node = TestNode::start_with_relations(|_| {}).await;
    // 1 follows 10..=459; 2 follows every third user in 10..=1009; every second user in 10..=309 follows 1.
    let all = (10..460)
        .map(|user| (1, user))
        .chain((10..1010).step_by(3).map(|user| (2, user)))
        .chain((10..310).step_by(2).map(|user| (user, 1)));
    assert!(import(&node, all).await.iter().all(Option::is_some));
    let mut of_1: Vec<i64> = friends(&node, 1, 40).await;
    of_1.sort_unstable();
    assert_eq!(of_1, (10..310).step_by(2).collect::<Vec<_>>());
    for (user_id, other_id) in [(1, 2), (2, 1)] {
        let common = all_pages(async |page_token| {
            let request = ListCommonFollowingRequest {
                user_id,
                other_id,
                page_size: 60,
                page_token,
                ..Default::default()
            };
            let page = node.relations().list_common_following(request).await?.into_inner();
            Ok((page.user_ids, page.next_page_token))
        });
        let mut common = common.await.unwrap();
        common.sort_unstable();
        assert_eq!(common, (10..460).step_by(3).collect::<Vec<_>>());
    }
    let request = ListFansIFollowRequest { user_id: 2, other_id: 1, page_size: 1000, ..Default::default() };
    let mut fans = node.relations().list_fans_i_follow(request).await.unwrap().into_inner().user_ids;
    fans.sort_unstable();
    assert_eq!(fans, (10..310).step_by(6).collect::<Vec<_>>());
}

#[tokio::test]
async fn friend_pages_continue_despite_new_friends() {
    let node = TestNode::start_with_relations(|_| {}).await;
    let both_ways = |users: std::ops::Range<i64>| users.flat_map(|user| [(1, user), (user, 1)]);
    import(&node, both_ways(10..460)).await;
    let mut newer = 0;
    let found = all_pages(async |page_token| {
        let request = ListFriendsRequest { user_id: 1, page_size: 60, page_token, ..Default::default() };
        let page = node.relations().list_friends(request).await?.into_inner();
        // The import adds more than a page to the lists.
        newer += 60_000;
        import(&node, both_ways(newer..newer + 300)).await;
        Ok((page.user_ids, page.next_page_token))
    });
    assert_eq!(found.await.unwrap(), (10..460).rev().collect::<Vec<_>>());
}
