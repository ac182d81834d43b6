//! Follows, friends and blocks over gRPC, as callers use them.

use crate::node::{
    SERVICE, TestNode, assert_error, assert_forbidden, assert_invalid, assert_not_found, assert_reused,
    principal,
};
use crate::relation_calls::*;
use kith_proto::relation::v1::*;
use kith_server::config::RelationMode;
use tonic::Code;

#[tokio::test]
async fn follow_and_its_end_show_on_both_sides() {
    let (node, [ann, bob]) = with_users().await;
    assert_eq!((following(&node, ann).await, fans(&node, bob).await), (vec![], vec![]));
    assert_eq!(counts(&node, ann).await, (0, 0));
    let made = follow(&node, ann, bob).await.unwrap();
    assert_eq!((made.user_id, made.target_id), (ann, bob));
    assert_eq!((following(&node, ann).await, fans(&node, bob).await), (vec![bob], vec![ann]));
    assert_eq!((fans(&node, ann).await, following(&node, bob).await), (vec![], vec![]));
    let (there, back) = (relation(&node, ann, bob).await, relation(&node, bob, ann).await);
    assert_eq!((there.follow, there.followed_by), (Some(made), None));
    assert_eq!(follow(&node, ann, bob).await.unwrap(), made, "it is there");
    counts_become(&node, [(ann, (1, 0)), (bob, (0, 1))]).await;
    assert_not_found(unfollow(&node, bob, ann).await);
    assert_eq!((back.follow, back.followed_by), (None, Some(made)));
    assert!(unfollow(&node, ann, bob).await.unwrap() > made.version);
    assert_eq!((following(&node, ann).await, fans(&node, bob).await), (vec![], vec![]));
    assert_eq!(relation(&node, ann, bob).await.follow, None);
    counts_become(&node, [(ann, (0, 0)), (bob, (0, 0))]).await;
}

#[tokio::test]
async fn self_and_absent_users_are_refused() {
    let (node, [ann]) = with_users().await;
    assert_invalid(follow(&node, ann, ann).await, "target_id");
    let request = BlockRequest { user_id: ann, target_id: ann, ..Default::default() };
    assert_invalid(node.relations().block(request).await, "target_id");
    for (from, to) in [(ann, 5), (5, ann)] {
        assert_not_found(follow(&node, from, to).await);
    }
    let absent = ann + 1_000;
    for (user_id, target_id) in [(absent, ann), (ann, absent)] {
        let request = BlockRequest { user_id, target_id, ..Default::default() };
        assert_not_found(node.relations().block(request).await);
        let request = SetRemarkRequest { user_id, target_id, remark: "x".into(), ..Default::default() };
        assert_not_found(node.relations().set_remark(request).await);
        let request =
            SetPermissionsRequest { user_id, target_id, permissions: Some(1), ..Default::default() };
        assert_not_found(node.relations().set_permissions(request).await);
        let request =
            SetDoNotDisturbRequest { user_id, target_id, do_not_disturb: true, ..Default::default() };
        assert_not_found(node.relations().set_do_not_disturb(request).await);
        // An unblock needs no existing user.
        unblock(&node, user_id, target_id).await;
    }
}

#[tokio::test]
async fn block_ends_follow_and_forbids_another() {
    let (node, [ann, bob]) = with_users().await;
    follow(&node, ann, bob).await.unwrap();
    follow(&node, bob, ann).await.unwrap();
    let answer = block(&node, ann, bob).await;
    assert!(answer.follow_ended);
    assert_eq!((fans(&node, ann).await, following(&node, bob).await), (vec![], vec![]));
    assert_eq!(following(&node, ann).await, [bob], "one's own follow stays");
    assert_forbidden(follow(&node, bob, ann).await);
    let request = FollowRequest { request_id: "again".into(), ..to_follow(bob, ann) };
    let refused = assert_forbidden(node.relations().follow(request).await);
    for word in ["block", &ann.to_string(), &bob.to_string()] {
        assert!(!refused.message().contains(word), "the message does not reveal a block: {refused:?}");
    }
    let blocks = async || {
        let request = ListBlocksRequest { user_id: ann, ..Default::default() };
        node.relations().list_blocks(request).await.unwrap().into_inner().settings
    };
    assert_eq!(blocks().await[0].target_id, bob);
    unblock(&node, ann, bob).await;
    assert_eq!(blocks().await, []);
    assert_eq!(fans(&node, ann).await, [0_i64; 0], "an ended follow does not come back");
    follow(&node, bob, ann).await.unwrap();
    // A removed fan is blocked in the same step.
    follow(&node, bob, ann).await.unwrap();
    let request = RemoveFanRequest { user_id: ann, fan_id: bob, ..Default::default() };
    let answer = node.relations().remove_fan(request).await.unwrap().into_inner();
    assert!(answer.settings.unwrap().settings.unwrap().blocked);
    assert_eq!(fans(&node, ann).await, [0_i64; 0]);
    assert_eq!(follow(&node, bob, ann).await.unwrap_err().code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn permissions_are_independent_of_the_block() {
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
    unblock(&node, ann, bob).await;
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
    assert_invalid(node.relations().set_permissions(request).await, "permissions");
    for blocked in [false, true] {
        if blocked {
            block(&node, bob, ann).await;
        }
        let request = CheckPermissionRequest { user_id: ann, target_id: bob, ..Default::default() };
        assert_invalid(node.relations().check_permission(principal(ann, request)).await, "permissions");
        assert_eq!(allowed(&node, ann, bob, 0).await, (!blocked, 0), "services see it");
    }
}

#[tokio::test]
async fn default_permissions_are_configured() {
    let (node, [ann, bob]) = node_with_users(|config| config.relations.default_permissions = 1).await;
    assert_eq!(allowed(&node, bob, ann, 3).await, (false, 2));
    assert_eq!(relation(&node, ann, bob).await.settings.unwrap().permissions, 1);
}

#[tokio::test]
async fn remark_and_do_not_disturb_share_a_version() {
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
    assert_error(node.relations().set_do_not_disturb(quiet).await, Code::Aborted, "VERSION_CONFLICT");
    let settings = relation(&node, ann, bob).await.settings.unwrap();
    assert_eq!(
        (settings.remark.as_str(), settings.do_not_disturb, settings.version),
        ("Bob from work", true, 2)
    );
    let list = ListDoNotDisturbRequest { user_id: ann, ..Default::default() };
    let listed = node.relations().list_do_not_disturb(list).await.unwrap().into_inner().settings;
    assert_eq!(listed.iter().map(|one| one.target_id).collect::<Vec<_>>(), [bob]);
    let request = SetRemarkRequest { remark: "x".repeat(65), ..request };
    assert_invalid(node.relations().set_remark(request).await, "remark");
    assert_eq!(relation(&node, bob, ann).await.settings.unwrap().remark, "", "the other one has set nothing");
}

#[tokio::test]
async fn friendship_is_mutual_until_one_ends_it() {
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
    assert_reused(node.relations().unfriend(other).await, "request_id");
    assert_eq!((friends(&node, ann, 0).await, following(&node, bob).await), (vec![], vec![]));
    assert_eq!(following(&node, ann).await, [cid]);
    let request = UnfriendRequest { user_id: ann, friend_id: bob, ..Default::default() };
    assert_eq!(node.relations().unfriend(request).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn friend_mode_services_make_limited_friends() {
    let change = |config: &mut kith_server::config::Config| {
        config.relations.mode = RelationMode::Friend;
        config.relations.friends_max = 1;
    };
    let (node, [ann, bob, cid]) = node_with_users(change).await;
    assert_forbidden(node.relations().follow(principal(ann, to_follow(ann, bob))).await);
    follow(&node, ann, bob).await.unwrap();
    follow(&node, bob, ann).await.unwrap();
    assert_eq!(friends(&node, ann, 0).await, [bob]);
    assert_forbidden(follow(&node, ann, cid).await);
}

/// A batch writes its answer itself; a single read's answer is encoded like all others.
#[tokio::test]
async fn batch_equals_single_reads() {
    let (node, [ann, bob, cid, dan, eve, fay]) = with_users().await;
    for (one, other) in [(ann, bob), (bob, ann), (cid, ann), (ann, dan)] {
        follow(&node, one, other).await.unwrap();
    }
    block(&node, dan, ann).await;
    block(&node, ann, eve).await;
    for (target_id, remark) in [(bob, "Bob".to_owned()), (cid, "é".repeat(64)), (eve, String::new())] {
        let request = SetRemarkRequest { user_id: ann, target_id, remark, ..Default::default() };
        node.relations().set_remark(request).await.unwrap();
        let request =
            SetPermissionsRequest { user_id: ann, target_id, permissions: Some(5), ..Default::default() };
        node.relations().set_permissions(request).await.unwrap();
    }
    do_not_disturb(&node, ann, cid, true).await;
    let targets = [bob, cid, dan, eve, fay, 999, bob];
    let request = BatchGetRelationsRequest { user_id: ann, target_ids: targets.to_vec(), consistency: None };
    for by in [SERVICE, ann] {
        let asked = |target_id| GetRelationRequest { user_id: ann, target_id, consistency: None };
        let mut alone = Vec::new();
        for target in targets {
            let answer = node.relations().get_relation(principal(by, asked(target))).await.unwrap();
            let relation = answer.into_inner().relation.unwrap();
            let shown = by == SERVICE && target == dan;
            assert_eq!(relation.blocked_by_target, shown, "users do not learn who has blocked them");
            let result = Some(relation_result::Result::Relation(relation));
            alone.push(RelationResult { target_id: target, result });
        }
        let answer = node.relations().batch_get_relations(principal(by, request.clone())).await.unwrap();
        assert_eq!(answer.into_inner().results, alone);
    }
}

#[tokio::test]
async fn import_names_the_refused_records() {
    let node = TestNode::start_with_relations(|_| {}).await;
    let results = import(&node, [(1, 2), (3, 3), (0, 1), (2, 1), (1, 2)]).await;
    assert_eq!(results, [Some(1), None, None, Some(2), Some(1)]);
    assert_eq!(friends(&node, 1, 0).await, [2]);
    let refused = node.relations().import_follows(principal(1, tokio_stream::iter([]))).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}
