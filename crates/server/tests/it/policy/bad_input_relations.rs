//! The rows of the table of bad input that are about relations, by their names there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::http::post;
use crate::node::{TestNode, assert_refused, principal};
use kith_proto::relation::v1::*;
use tonic::{Code, Status};

const GET_RELATION: &str = "/kith.relation.v1.RelationService/GetRelation";

async fn started() -> (TestNode, i64, i64) {
    let node = TestNode::start_with_relations(|_| {}).await;
    let (ann, bob) = (node.user("ann").await.user_id, node.user("bob").await.user_id);
    (node, ann, bob)
}

async fn follow(node: &TestNode, user_id: i64, target_id: i64) -> Result<(), Status> {
    let request = FollowRequest { user_id, target_id, ..Default::default() };
    node.relations().follow(request).await.map(drop)
}

#[tokio::test]
async fn a24_nobody_follows_or_blocks_oneself() {
    let (node, ann, _) = started().await;
    let refused = follow(&node, ann, ann).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("target_id"));
    let request = BlockRequest { user_id: ann, target_id: ann, ..Default::default() };
    let refused = node.relations().block(request).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("target_id"));
    node.assert_healthy().await;
}

#[tokio::test]
async fn a25_blocked_user_cannot_follow_nor_learn_why() {
    let (node, ann, bob) = started().await;
    let request = BlockRequest { user_id: ann, target_id: bob, ..Default::default() };
    node.relations().block(request).await.unwrap();
    let refused = follow(&node, bob, ann).await.unwrap_err();
    assert_refused(&refused, Code::FailedPrecondition, "STATE_FORBIDS", None);
    for word in ["block", &ann.to_string(), &bob.to_string()] {
        assert!(!refused.message().contains(word), "{}", refused.message());
    }
}

#[tokio::test]
async fn a38_signs_are_stored_in_texts_not_in_keys() {
    let (node, ann, bob) = started().await;
    for sign in [":", "{", "}", "*", "?", "a b", "1:bsgd"] {
        let request =
            SetRemarkRequest { user_id: ann, target_id: bob, remark: sign.to_owned(), ..Default::default() };
        let settings = node.relations().set_remark(request.clone()).await;
        let settings = settings.unwrap().into_inner().settings.unwrap().settings.unwrap();
        assert_eq!(settings.remark, sign);
        let refused = SetRemarkRequest { request_id: format!("id{sign}"), ..request };
        let refused = node.relations().set_remark(refused).await.unwrap_err();
        assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("request_id"));
    }
    let request =
        SetRemarkRequest { user_id: ann, target_id: bob, remark: "a\r\nb".into(), ..Default::default() };
    let refused = node.relations().set_remark(request).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("remark"));
}

#[tokio::test]
async fn a39_a_text_that_is_no_number_is_no_id() {
    let (node, ann, _) = started().await;
    for id in ["1:bsgd", "", " 7", "7 ", "0x7", "１", "9223372036854775808"] {
        let body = serde_json::json!({ "userId": ann.to_string(), "targetId": id });
        let refused = post(node.address, GET_RELATION, body.to_string()).await;
        assert_eq!(refused.code, 400, "{id:?}: {refused:?}");
        assert_eq!(refused.json()["code"], "invalid_argument", "{id:?}");
        assert!(refused.json()["message"].as_str().unwrap().contains("target_id"), "{id:?}: {refused:?}");
    }
}

#[tokio::test]
async fn a40_bad_numbers_reach_no_script() {
    let (node, ann, bob) = started().await;
    for target_id in [0, -1, i64::MIN] {
        let request = GetRelationRequest { user_id: ann, target_id, consistency: None };
        let refused = node.relations().get_relation(request).await.unwrap_err();
        assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("target_id"));
    }
    for number in ["1e400", "-0.5", "1.5", "\"nil\"", "\"NaN\"", "NaN"] {
        let body = format!(r#"{{"userId":{ann},"targetId":{number}}}"#);
        let refused = post(node.address, GET_RELATION, body).await;
        assert_eq!((refused.code, &refused.json()["code"]), (400, &"invalid_argument".into()), "{number}");
    }
    let request =
        BatchGetRelationsRequest { user_id: ann, target_ids: vec![bob; 100_000], ..Default::default() };
    let refused = node.relations().batch_get_relations(request).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("target_ids"));
    let request =
        CheckPermissionRequest { user_id: ann, target_id: bob, permissions: u32::MAX, consistency: None };
    let refused = node.relations().check_permission(request).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("permissions"));
    node.assert_healthy().await;
}

#[tokio::test]
async fn a49_settings_about_others_stay_private() {
    let (node, ann, bob) = started().await;
    let blocks = ListBlocksRequest { user_id: ann, ..Default::default() };
    let refused = node.relations().list_blocks(principal(bob, blocks.clone())).await.unwrap_err();
    assert_refused(&refused, Code::PermissionDenied, "NOT_ALLOWED", None);
    let quiet = ListDoNotDisturbRequest { user_id: ann, ..Default::default() };
    let refused = node.relations().list_do_not_disturb(principal(bob, quiet)).await.unwrap_err();
    assert_refused(&refused, Code::PermissionDenied, "NOT_ALLOWED", None);
    let request = GetRelationRequest { user_id: ann, target_id: bob, consistency: None };
    let refused = node.relations().get_relation(principal(bob, request)).await.unwrap_err();
    assert_refused(&refused, Code::PermissionDenied, "NOT_ALLOWED", None);
    let request = BatchGetRelationsRequest { user_id: ann, target_ids: vec![bob], ..Default::default() };
    let refused = node.relations().batch_get_relations(principal(bob, request)).await.unwrap_err();
    assert_refused(&refused, Code::PermissionDenied, "NOT_ALLOWED", None);
    node.relations().list_blocks(principal(ann, blocks)).await.unwrap();
}
