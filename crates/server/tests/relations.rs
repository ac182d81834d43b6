//! Follows, friends and blocks over gRPC, as callers meet them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod node;

use kith_proto::{admin::v1::GetCacheStatsRequest, relation::v1::*, r#type::v1::import_result};
use kith_server::config::RelationMode;
use node::{TestNode, acting, assert_refused};
use tonic::{Code, Status};

/// A node with so many users, and their ids.
async fn with_users<const N: usize>() -> (TestNode, [i64; N]) {
    let node = TestNode::start_with_relations(|_| {}).await;
    let ids = users(&node).await;
    (node, ids)
}

async fn users<const N: usize>(node: &TestNode) -> [i64; N] {
    let mut ids = [0; N];
    for (at, id) in ids.iter_mut().enumerate() {
        *id = node.user(&format!("user{at}")).await.user_id;
    }
    ids
}

fn to_follow(user_id: i64, target_id: i64) -> FollowRequest {
    FollowRequest { user_id, target_id, request_id: String::new() }
}

async fn follow(node: &TestNode, user_id: i64, target_id: i64) -> Result<Follow, Status> {
    let answer = node.relations().follow(to_follow(user_id, target_id)).await?;
    Ok(answer.into_inner().follow.unwrap())
}

async fn unfollow(node: &TestNode, user_id: i64, target_id: i64) -> Result<i64, Status> {
    let request = UnfollowRequest { user_id, target_id, ..Default::default() };
    Ok(node.relations().unfollow(request).await?.into_inner().version)
}

async fn block(node: &TestNode, user_id: i64, target_id: i64) -> BlockResponse {
    let request = BlockRequest { user_id, target_id, ..Default::default() };
    node.relations().block(request).await.unwrap().into_inner()
}

async fn relation(node: &TestNode, user_id: i64, target_id: i64) -> Relation {
    let request = GetRelationRequest { user_id, target_id, consistency: None };
    node.relations().get_relation(request).await.unwrap().into_inner().relation.unwrap()
}

async fn allowed(node: &TestNode, user_id: i64, target_id: i64, permissions: u32) -> (bool, u32) {
    let request = CheckPermissionRequest { user_id, target_id, permissions, consistency: None };
    let answer = node.relations().check_permission(request).await.unwrap().into_inner();
    (answer.allowed, answer.denied)
}

async fn following(node: &TestNode, user_id: i64) -> Vec<i64> {
    let request = ListFollowingRequest { user_id, ..Default::default() };
    let page = node.relations().list_following(request).await.unwrap().into_inner();
    page.follows.iter().map(|follow| follow.target_id).collect()
}

async fn fans(node: &TestNode, user_id: i64) -> Vec<i64> {
    let request = ListFansRequest { user_id, ..Default::default() };
    let page = node.relations().list_fans(request).await.unwrap().into_inner();
    page.follows.iter().map(|follow| follow.user_id).collect()
}

async fn counts(node: &TestNode, user_id: i64) -> (i64, i64) {
    let request = CountRelationsRequest { user_id, consistency: None };
    let counts = node.relations().count_relations(request).await.unwrap().into_inner();
    (counts.following, counts.fans)
}

/// Waits until these users have so many.
async fn counts_become<const N: usize>(node: &TestNode, expected: [(i64, (i64, i64)); N]) {
    let right = async {
        for (user, of_user) in expected {
            while counts(node, user).await != of_user {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), right).await.expect("counts settle");
}

async fn friends(node: &TestNode, user_id: i64, page_size: i32) -> Vec<i64> {
    let mut request = ListFriendsRequest { user_id, page_size, ..Default::default() };
    let mut found = Vec::new();
    loop {
        let page = node.relations().list_friends(request.clone()).await.unwrap().into_inner();
        assert!(!page.partial && page.user_ids.len() <= usize::try_from(page_size).unwrap().max(50));
        found.extend(page.user_ids);
        if page.next_page_token.is_empty() {
            return found;
        }
        request.page_token = page.next_page_token;
    }
}

async fn import(node: &TestNode, follows: impl IntoIterator<Item = (i64, i64)>) -> Vec<Option<i64>> {
    let record = |(at, (user_id, target_id))| ImportFollow {
        record: at,
        user_id,
        target_id,
        follow_time: Some(prost_types::Timestamp { seconds: 1_000_000, nanos: 0 }),
    };
    let records: Vec<ImportFollow> = (0..).zip(follows).map(record).collect();
    let messages: Vec<_> =
        records.chunks(500).map(|records| ImportFollowsRequest { records: records.to_vec() }).collect();
    let stream = tokio_stream::iter(messages);
    let mut answers = node.relations().import_follows(stream).await.unwrap().into_inner();
    let mut results = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        results.extend(answer.results.into_iter().map(|result| match result.result.unwrap() {
            import_result::Result::Id(id) => Some(id),
            import_result::Result::Error(_) => None,
        }));
    }
    results
}

#[tokio::test]
async fn a_follow_is_seen_on_both_sides_at_once_and_its_end_too() {
    let (node, [ann, bob]) = with_users().await;
    assert_eq!((following(&node, ann).await, fans(&node, bob).await), (vec![], vec![]));
    assert_eq!(counts(&node, ann).await, (0, 0));
    let made = follow(&node, ann, bob).await.unwrap();
    assert_eq!((made.user_id, made.target_id), (ann, bob));
    assert_eq!((following(&node, ann).await, fans(&node, bob).await), (vec![bob], vec![ann]));
    assert_eq!((fans(&node, ann).await, following(&node, bob).await), (vec![], vec![]));
    let (there, back) = (relation(&node, ann, bob).await, relation(&node, bob, ann).await);
    assert_eq!((there.follow, there.followed_by), (Some(made), None));
    assert_eq!((back.follow, back.followed_by), (None, Some(made)));
    assert!(unfollow(&node, ann, bob).await.unwrap() > made.version);
    assert_eq!((following(&node, ann).await, fans(&node, bob).await), (vec![], vec![]));
    assert_eq!(relation(&node, ann, bob).await.follow, None);
}

#[tokio::test]
async fn counts_are_right_after_quiet() {
    let (node, [ann, bob, cid]) = with_users().await;
    for (from, to) in [(ann, bob), (ann, cid), (bob, cid)] {
        follow(&node, from, to).await.unwrap();
    }
    unfollow(&node, ann, bob).await.unwrap();
    counts_become(&node, [(ann, (1, 0)), (bob, (1, 0)), (cid, (0, 2))]).await;
}

#[tokio::test]
async fn following_twice_changes_nothing_and_unfollowing_nobody_is_not_found() {
    let (node, [ann, bob]) = with_users().await;
    let made = follow(&node, ann, bob).await.unwrap();
    assert_eq!(follow(&node, ann, bob).await.unwrap(), made);
    let refused = unfollow(&node, bob, ann).await.unwrap_err();
    assert_refused(&refused, Code::NotFound, "NOT_FOUND", None);
}

#[tokio::test]
async fn nobody_follows_oneself_or_somebody_who_does_not_live() {
    let (node, [ann]) = with_users().await;
    let refused = follow(&node, ann, ann).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("target_id"));
    let refused = follow(&node, ann, 0).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("target_id"));
    for (from, to) in [(ann, 5), (5, ann)] {
        let refused = follow(&node, from, to).await.unwrap_err();
        assert_refused(&refused, Code::NotFound, "NOT_FOUND", None);
    }
}

#[tokio::test]
async fn a_user_writes_what_is_its_own_and_a_service_everything() {
    let (node, [ann, bob]) = with_users().await;
    let refused = node.relations().follow(acting(bob, to_follow(ann, bob))).await.unwrap_err();
    assert_refused(&refused, Code::PermissionDenied, "NOT_ALLOWED", None);
    node.relations().follow(acting(ann, to_follow(ann, bob))).await.unwrap();
    let request = BlockRequest { user_id: ann, target_id: bob, ..Default::default() };
    let refused = node.relations().block(acting(bob, request.clone())).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    node.relations().block(acting(ann, request)).await.unwrap();
    let list = ListBlocksRequest { user_id: ann, ..Default::default() };
    assert_eq!(
        node.relations().list_blocks(acting(bob, list.clone())).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    assert_eq!(node.relations().list_blocks(acting(ann, list)).await.unwrap().into_inner().settings.len(), 1);
}

#[tokio::test]
async fn a_block_ends_the_follow_of_the_blocked_one_and_forbids_a_new_one() {
    let (node, [ann, bob]) = with_users().await;
    follow(&node, ann, bob).await.unwrap();
    follow(&node, bob, ann).await.unwrap();
    let answer = block(&node, ann, bob).await;
    assert!(answer.follow_ended);
    assert_eq!((fans(&node, ann).await, following(&node, bob).await), (vec![], vec![]));
    assert_eq!(following(&node, ann).await, [bob], "one's own follow stays");
    let refused = follow(&node, bob, ann).await.unwrap_err();
    assert_refused(&refused, Code::FailedPrecondition, "STATE_FORBIDS", None);
    let request = FollowRequest { request_id: "again".into(), ..to_follow(bob, ann) };
    let refused = node.relations().follow(request).await.unwrap_err();
    assert_refused(&refused, Code::FailedPrecondition, "STATE_FORBIDS", None);
    assert!(!refused.message().contains("block"), "who did what is not told");
    let request = UnblockRequest { user_id: ann, target_id: bob, ..Default::default() };
    node.relations().unblock(request).await.unwrap();
    assert_eq!(fans(&node, ann).await, [0_i64; 0], "an ended follow does not come back");
    follow(&node, bob, ann).await.unwrap();
}

#[tokio::test]
async fn permissions_are_absolute_and_apart_from_the_block() {
    let (node, [ann, bob]) = with_users().await;
    assert_eq!(allowed(&node, bob, ann, 63).await, (true, 0), "everything where nothing was set");
    let set = async |permissions: Option<u32>| {
        let request =
            SetPermissionsRequest { user_id: ann, target_id: bob, permissions, ..Default::default() };
        node.relations()
            .set_permissions(request)
            .await
            .unwrap()
            .into_inner()
            .settings
            .unwrap()
            .settings
            .unwrap()
    };
    for _ in 0..2 {
        let settings = set(Some(4)).await;
        assert_eq!((settings.permissions, settings.permissions_set, settings.blocked), (4, true, false));
    }
    assert_eq!(
        (allowed(&node, bob, ann, 4).await, allowed(&node, bob, ann, 5).await),
        ((true, 0), (false, 1))
    );
    block(&node, ann, bob).await;
    assert_eq!(
        (allowed(&node, bob, ann, 4).await, allowed(&node, bob, ann, 0).await),
        ((false, 4), (false, 0))
    );
    let request = UnblockRequest { user_id: ann, target_id: bob, ..Default::default() };
    node.relations().unblock(request).await.unwrap();
    assert_eq!(
        (allowed(&node, bob, ann, 4).await, allowed(&node, bob, ann, 5).await),
        ((true, 0), (false, 1))
    );
    assert_eq!(set(Some(0)).await.permissions, 0);
    assert_eq!(
        (allowed(&node, bob, ann, 1).await, allowed(&node, bob, ann, 0).await),
        ((false, 1), (true, 0))
    );
    assert!(!set(None).await.permissions_set);
    assert_eq!(allowed(&node, bob, ann, 63).await, (true, 0));
    let request =
        SetPermissionsRequest { user_id: ann, target_id: bob, permissions: Some(64), ..Default::default() };
    let refused = node.relations().set_permissions(request).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("permissions"));
}

#[tokio::test]
async fn what_may_be_done_where_nothing_was_set_is_configured() {
    let node = TestNode::start_with_relations(|config| config.relations.default_permissions = 1).await;
    let [ann, bob] = users(&node).await;
    assert_eq!(allowed(&node, bob, ann, 3).await, (false, 2));
    assert_eq!(relation(&node, ann, bob).await.settings.unwrap().permissions, 1);
}

#[tokio::test]
async fn remarks_and_do_not_disturb_are_kept_beside_each_other_under_one_version() {
    let (node, [ann, bob]) = with_users().await;
    let request = SetRemarkRequest {
        user_id: ann,
        target_id: bob,
        remark: "Bob from work".into(),
        ..Default::default()
    };
    let answer = node.relations().set_remark(request.clone()).await.unwrap().into_inner();
    assert_eq!(answer.settings.unwrap().settings.unwrap().version, 1);
    let quiet = SetDoNotDisturbRequest {
        user_id: ann,
        target_id: bob,
        do_not_disturb: true,
        expected_version: 1,
        ..Default::default()
    };
    node.relations().set_do_not_disturb(quiet.clone()).await.unwrap();
    let refused = node.relations().set_do_not_disturb(quiet).await.unwrap_err();
    assert_refused(&refused, Code::Aborted, "VERSION_CONFLICT", None);
    let settings = relation(&node, ann, bob).await.settings.unwrap();
    assert_eq!(
        (settings.remark.as_str(), settings.do_not_disturb, settings.version),
        ("Bob from work", true, 2)
    );
    let list = ListDoNotDisturbRequest { user_id: ann, ..Default::default() };
    let listed = node.relations().list_do_not_disturb(list).await.unwrap().into_inner().settings;
    assert_eq!(listed.iter().map(|one| one.target_id).collect::<Vec<_>>(), [bob]);
    let request = SetRemarkRequest { remark: "x".repeat(65), ..request };
    let refused = node.relations().set_remark(request).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("remark"));
    assert_eq!(relation(&node, bob, ann).await.settings.unwrap().remark, "", "the other one has set nothing");
}

#[tokio::test]
async fn a_removed_fan_is_blocked_in_the_same_step() {
    let (node, [ann, bob]) = with_users().await;
    follow(&node, bob, ann).await.unwrap();
    let request = RemoveFanRequest { user_id: ann, fan_id: bob, ..Default::default() };
    let answer = node.relations().remove_fan(request).await.unwrap().into_inner();
    assert!(answer.settings.unwrap().settings.unwrap().blocked);
    assert_eq!(fans(&node, ann).await, [0_i64; 0]);
    assert_eq!(follow(&node, bob, ann).await.unwrap_err().code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn friends_follow_each_other_until_one_ends_it_both_ways() {
    let (node, [ann, bob, cid]) = with_users().await;
    for (from, to) in [(ann, bob), (bob, ann), (ann, cid)] {
        follow(&node, from, to).await.unwrap();
    }
    assert_eq!((friends(&node, ann, 0).await, friends(&node, bob, 0).await), (vec![bob], vec![ann]));
    assert!(relation(&node, ann, bob).await.friends && !relation(&node, ann, cid).await.friends);
    let request = UnfriendRequest { user_id: ann, friend_id: bob, request_id: "r".into() };
    for _ in 0..2 {
        node.relations().unfriend(request.clone()).await.unwrap();
    }
    let other = UnfriendRequest { friend_id: cid, ..request };
    assert_refused(
        &node.relations().unfriend(other).await.unwrap_err(),
        Code::InvalidArgument,
        "REQUEST_ID_REUSED",
        Some("request_id"),
    );
    assert_eq!((friends(&node, ann, 0).await, following(&node, bob).await), (vec![], vec![]));
    assert_eq!(following(&node, ann).await, [cid]);
    let request = UnfriendRequest { user_id: ann, friend_id: bob, ..Default::default() };
    assert_eq!(node.relations().unfriend(request).await.unwrap_err().code(), Code::NotFound);
}

/// Keys of relations that the store has answered so far.
async fn store_reads(node: &TestNode) -> i64 {
    let stats = node.admin().get_cache_stats(GetCacheStatsRequest {}).await.unwrap().into_inner();
    stats.namespaces.iter().map(|namespace| namespace.store_reads).sum()
}

#[tokio::test]
async fn friends_that_were_read_are_read_again_without_the_store() {
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
async fn in_friend_mode_services_make_friends_and_not_too_many() {
    let change = |config: &mut kith_server::config::Config| {
        config.relations.mode = RelationMode::Friend;
        config.relations.friends_max = 1;
    };
    let node = TestNode::start_with_relations(change).await;
    let [ann, bob, cid] = users(&node).await;
    let refused = node.relations().follow(acting(ann, to_follow(ann, bob))).await.unwrap_err();
    assert_refused(&refused, Code::FailedPrecondition, "STATE_FORBIDS", None);
    follow(&node, ann, bob).await.unwrap();
    follow(&node, bob, ann).await.unwrap();
    assert_eq!(friends(&node, ann, 0).await, [bob]);
    let refused = follow(&node, ann, cid).await.unwrap_err();
    assert_refused(&refused, Code::FailedPrecondition, "STATE_FORBIDS", None);
}

#[tokio::test]
async fn a_batch_answers_for_each_target_in_its_order() {
    let (node, [ann, bob, cid]) = with_users().await;
    follow(&node, ann, cid).await.unwrap();
    block(&node, bob, ann).await;
    let request =
        BatchGetRelationsRequest { user_id: ann, target_ids: vec![cid, bob, cid], consistency: None };
    let results = node.relations().batch_get_relations(request.clone()).await.unwrap().into_inner().results;
    let relations: Vec<Relation> = results
        .into_iter()
        .map(|result| match result.result.unwrap() {
            relation_result::Result::Relation(relation) => relation,
            relation_result::Result::Error(error) => panic!("{error:?}"),
        })
        .collect();
    let seen: Vec<_> =
        relations.iter().map(|one| (one.target_id, one.follow.is_some(), one.blocked_by_target)).collect();
    assert_eq!(seen, [(cid, true, false), (bob, false, true), (cid, true, false)]);
    let answer = node.relations().batch_get_relations(acting(ann, request)).await.unwrap().into_inner();
    for result in answer.results {
        let relation_result::Result::Relation(relation) = result.result.unwrap() else { panic!("an error") };
        assert!(!relation.blocked_by_target, "users are not told who has blocked them");
    }
    let many = BatchGetRelationsRequest { user_id: 1, target_ids: (2..=1002).collect(), consistency: None };
    let refused = node.relations().batch_get_relations(many).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("target_ids"));
}

#[tokio::test]
async fn lists_are_paged_with_the_newest_first_and_tokens_belong_to_their_list() {
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
async fn blocks_are_listed_newest_first_and_an_ended_one_is_gone_at_once() {
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
async fn an_import_says_which_records_it_could_not_take() {
    let node = TestNode::start_with_relations(|_| {}).await;
    let results = import(&node, [(1, 2), (3, 3), (0, 1), (2, 1), (1, 2)]).await;
    assert_eq!(results, [Some(1), None, None, Some(2), Some(1)]);
    assert_eq!(friends(&node, 1, 0).await, [2]);
    let refused = node.relations().import_follows(acting(1, tokio_stream::iter([]))).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn who_stands_in_two_lists_is_found_page_by_page_whichever_is_longer() {
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
async fn a_repeated_request_has_one_effect_and_the_same_answer() {
    let (node, [ann, bob]) = with_users().await;
    let request = FollowRequest { request_id: "f".into(), ..to_follow(ann, bob) };
    let first = node.relations().follow(request.clone()).await.unwrap().into_inner().follow;
    unfollow(&node, ann, bob).await.unwrap();
    block(&node, bob, ann).await;
    assert_eq!(node.relations().follow(request.clone()).await.unwrap().into_inner().follow, first);
    assert_eq!(following(&node, ann).await, [0_i64; 0]);
    let other = FollowRequest { user_id: bob, target_id: ann, ..request };
    let refused = node.relations().follow(other).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "REQUEST_ID_REUSED", Some("request_id"));
}
