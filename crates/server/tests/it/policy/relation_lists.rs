//! Lists of relations over gRPC, page by page.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::node::{TestNode, assert_refused};
use crate::relation_calls::*;
use kith_proto::{admin::v1::GetCacheStatsRequest, relation::v1::*};
use tonic::Code;

/// Keys of relations that the store has answered so far.
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
    let mut request = ListFansRequest { user_id: 1, page_size: 7, ..Default::default() };
    let mut found = Vec::new();
    loop {
        let page = node.relations().list_fans(request.clone()).await.unwrap().into_inner();
        found.extend(page.follows.iter().map(|follow| follow.user_id));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
        assert_eq!(page.follows.len(), 7);
        let other = ListFansRequest { user_id: 2, ..request.clone() };
        let refused = node.relations().list_fans(other).await.unwrap_err();
        assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("page_token"));
    }
    assert_eq!(found, (2..=31).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn block_list_is_newest_first_without_ended() {
    let (node, [ann, bob, cid]) = with_users().await;
    block(&node, ann, bob).await;
    block(&node, ann, cid).await;
    let list = async || {
        let request = ListBlocksRequest { user_id: ann, ..Default::default() };
        let page = node.relations().list_blocks(request).await.unwrap().into_inner();
        page.settings.iter().map(|one| one.target_id).collect::<Vec<_>>()
    };
    assert_eq!(list().await, [cid, bob]);
    let request = UnblockRequest { user_id: ann, target_id: cid, ..Default::default() };
    node.relations().unblock(request).await.unwrap();
    assert_eq!(list().await, [bob]);
}

#[tokio::test]
async fn common_users_are_paged_from_either_list() {
    let node = TestNode::start_with_relations(|_| {}).await;
    // 1 follows 10..=459; 2 follows every third of 10..=1009; every second of 10..=309 follows 1.
    let all = (10..460)
        .map(|user| (1, user))
        .chain((10..1010).step_by(3).map(|user| (2, user)))
        .chain((10..310).step_by(2).map(|user| (user, 1)));
    assert!(import(&node, all).await.iter().all(Option::is_some));
    let mut of_1: Vec<i64> = friends(&node, 1, 40).await;
    of_1.sort_unstable();
    assert_eq!(of_1, (10..310).step_by(2).collect::<Vec<_>>());
    for (user_id, other_id) in [(1, 2), (2, 1)] {
        let mut request =
            ListCommonFollowingRequest { user_id, other_id, page_size: 60, ..Default::default() };
        let mut common = Vec::new();
        loop {
            let page = node.relations().list_common_following(request.clone()).await.unwrap().into_inner();
            common.extend(page.user_ids);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
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
    let mut request = ListFriendsRequest { user_id: 1, page_size: 60, ..Default::default() };
    let mut found = Vec::new();
    loop {
        let page = node.relations().list_friends(request.clone()).await.unwrap().into_inner();
        found.extend(page.user_ids);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
        // More than a page of the lists.
        let newer = 1_000 * i64::try_from(found.len()).unwrap();
        import(&node, both_ways(newer..newer + 300)).await;
    }
    assert_eq!(found, (10..460).rev().collect::<Vec<_>>());
}
