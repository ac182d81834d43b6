//! The rows about relations in the bad input table, by their names there.

use crate::http::post;
use crate::node::{assert_denied, assert_forbidden, assert_invalid, principal};
use crate::relation_calls::{block, follow, with_users};
use kith_proto::relation::v1::*;

const GET_RELATION: &str = "/kith.relation.v1.RelationService/GetRelation";

#[tokio::test]
async fn a24_nobody_follows_or_blocks_oneself() {
    let (node, [ann]) = with_users().await;
    assert_invalid(follow(&node, ann, ann).await, "target_id");
    let request = BlockRequest { user_id: ann, target_id: ann, ..Default::default() };
    assert_invalid(node.relations().block(request).await, "target_id");
    node.assert_healthy().await;
}

#[tokio::test]
async fn a25_blocked_user_cannot_follow_nor_learn_why() {
    let (node, [ann, bob]) = with_users().await;
    block(&node, ann, bob).await;
    let refused = assert_forbidden(follow(&node, bob, ann).await);
    for word in ["block", &ann.to_string(), &bob.to_string()] {
        assert!(!refused.message().contains(word), "{}", refused.message());
    }
}

#[tokio::test]
async fn a38_signs_are_stored_in_texts_not_in_keys() {
    let (node, [ann, bob]) = with_users().await;
    for sign in [":", "{", "}", "*", "?", "a b", "1:bsgd"] {
        let request =
            SetRemarkRequest { user_id: ann, target_id: bob, remark: sign.to_owned(), ..Default::default() };
        let settings = node.relations().set_remark(request.clone()).await;
        let settings = settings.unwrap().into_inner().settings.unwrap().settings.unwrap();
        assert_eq!(settings.remark, sign);
        let refused = SetRemarkRequest { request_id: format!("id{sign}"), ..request };
        assert_invalid(node.relations().set_remark(refused).await, "request_id");
    }
    let request =
        SetRemarkRequest { user_id: ann, target_id: bob, remark: "a\r\nb".into(), ..Default::default() };
    assert_invalid(node.relations().set_remark(request).await, "remark");
}

#[tokio::test]
async fn a39_a_text_that_is_no_number_is_no_id() {
    let (node, [ann]) = with_users().await;
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
    let (node, [ann, bob]) = with_users().await;
    for target_id in [0, -1, i64::MIN] {
        let request = GetRelationRequest { user_id: ann, target_id, consistency: None };
        assert_invalid(node.relations().get_relation(request).await, "target_id");
    }
    for number in ["1e400", "-0.5", "1.5", "\"nil\"", "\"NaN\"", "NaN"] {
        let body = format!(r#"{{"userId":{ann},"targetId":{number}}}"#);
        let refused = post(node.address, GET_RELATION, body).await;
        assert_eq!((refused.code, &refused.json()["code"]), (400, &"invalid_argument".into()), "{number}");
    }
    let request =
        BatchGetRelationsRequest { user_id: ann, target_ids: vec![bob; 100_000], ..Default::default() };
    assert_invalid(node.relations().batch_get_relations(request).await, "target_ids");
    let request =
        CheckPermissionRequest { user_id: ann, target_id: bob, permissions: u32::MAX, consistency: None };
    assert_invalid(node.relations().check_permission(request).await, "permissions");
    node.assert_healthy().await;
}

#[tokio::test]
async fn a49_settings_about_others_stay_private() {
    let (node, [ann, bob]) = with_users().await;
    let blocks = ListBlocksRequest { user_id: ann, ..Default::default() };
    assert_denied(node.relations().list_blocks(principal(bob, blocks.clone())).await);
    let quiet = ListDoNotDisturbRequest { user_id: ann, ..Default::default() };
    assert_denied(node.relations().list_do_not_disturb(principal(bob, quiet)).await);
    let request = GetRelationRequest { user_id: ann, target_id: bob, consistency: None };
    assert_denied(node.relations().get_relation(principal(bob, request)).await);
    let request = BatchGetRelationsRequest { user_id: ann, target_ids: vec![bob], ..Default::default() };
    assert_denied(node.relations().batch_get_relations(principal(bob, request)).await);
    node.relations().list_blocks(principal(ann, blocks)).await.unwrap();
}
