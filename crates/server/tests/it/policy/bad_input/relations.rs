//! The rows about relations in the bad input table, by their names there.

use crate::http::post;
use crate::node::assert_invalid;
use crate::relation_calls::with_users;
use kith_proto::relation::v1::*;

const GET_RELATION: &str = "/kith.relation.v1.RelationService/GetRelation";

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
    for number in ["1e400", "-0.5", "1.5", "\"nil\"", "\"NaN\"", "NaN"] {
        let body = format!(r#"{{"userId":{ann},"targetId":{number}}}"#);
        let refused = post(node.address, GET_RELATION, body).await;
        assert_eq!((refused.code, &refused.json()["code"]), (400, &"invalid_argument".into()), "{number}");
    }
    let request =
        CheckPermissionRequest { user_id: ann, target_id: bob, permissions: u32::MAX, consistency: None };
    assert_invalid(node.relations().check_permission(request).await, "permissions");
    node.assert_healthy().await;
}
