//! Bad input about changes: the same code and field by gRPC and by JSON.

use serde_json::json;

use super::{assert_field_refused, called};
use crate::{
    change_calls::{cursor, keeping, page},
    node::TestNode,
};

const READ: &str = "/kith.change.v1.ChangeService/ReadChanges";
const CURSOR: &str = "/kith.change.v1.ChangeService/GetCursor";

#[tokio::test]
async fn cursors_of_every_wrong_form_are_refused() {
    let node = TestNode::start_with(keeping).await;
    let right = cursor(&node).await;
    let long = "A".repeat(100_000);
    for wrong in ["", " ", "x", "é", &right[1..], &right[..right.len() - 1], &format!("{right}A"), &long] {
        let why = "must be one that GetCursor or ReadChanges returned";
        assert_field_refused(&node, READ, &json!({ "cursor": wrong }), "cursor", why).await;
    }
    assert_eq!(called(&node, CURSOR, &json!({})).await.code, "ok");
    assert_eq!(called(&node, READ, &json!({ "cursor": right })).await.code, "ok");
    node.assert_healthy().await;
}

#[tokio::test]
async fn limits_and_kinds_have_bounds() {
    let node = TestNode::start_with(|config| {
        keeping(config);
        config.changes.dialogs = false;
    })
    .await;
    let cursor = cursor(&node).await;
    for limit in [-1, 1_001, i32::MAX, i32::MIN] {
        let body = json!({ "cursor": cursor, "limit": limit });
        assert_field_refused(&node, READ, &body, "limit", "must be from 0 to 1000").await;
    }
    for kind in [0, 13, -1, i32::MAX] {
        let body = json!({ "cursor": cursor, "kinds": [1, kind] });
        assert_field_refused(&node, READ, &body, "kinds", "must be kinds of ChangeKind").await;
    }
    let dialogs = json!({ "cursor": cursor, "kinds": ["CHANGE_KIND_DIALOG"] });
    assert_field_refused(&node, READ, &dialogs, "kinds", "changes.dialogs is not set").await;
    page(&node, &cursor, &[], 1_000).await.unwrap();
    node.assert_healthy().await;
}
