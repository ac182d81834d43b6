//! Bad receipt input: the same code, reason and field by gRPC and by JSON.

use serde_json::{Value, json};

use super::{WRONG_IDS, assert_field_refused, called, with};
use crate::message_calls::filled_by_service;

fn path(method: &str) -> String {
    format!("/kith.receipt.v1.ReceiptService/{method}")
}

/// Returns each call, with the fields that it needs besides the conversation.
fn calls() -> [(String, Value); 6] {
    let of_one = || json!({ "seq": 1 });
    [
        (path("GetReceipt"), of_one()),
        (path("BatchGetReceipts"), json!({ "seqs": [1] })),
        (path("ListReaders"), of_one()),
        (path("ListUnread"), of_one()),
        (path("ListLeft"), of_one()),
        (path("ListOrdinals"), json!({})),
    ]
}

#[tokio::test]
async fn conversations_of_every_wrong_form_are_refused() {
    let (node, ..) = filled_by_service(3).await;
    for id in WRONG_IDS {
        for (method, fields) in calls() {
            let body = with(fields, json!({ "conversationId": id }));
            assert_field_refused(&node, &method, &body, "conversation_id", "must").await;
        }
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn numbers_that_no_message_has_are_refused() {
    let (node, _, group) = filled_by_service(3).await;
    for seq in [0, -1, i64::MIN] {
        for method in ["GetReceipt", "ListReaders", "ListUnread", "ListLeft"] {
            let body = json!({ "conversationId": group, "seq": seq.to_string() });
            assert_field_refused(&node, &path(method), &body, "seq", "must be above 0").await;
        }
        let body = json!({ "conversationId": group, "seqs": ["1", seq.to_string()] });
        assert_field_refused(&node, &path("BatchGetReceipts"), &body, "seqs", "must be above 0").await;
    }
    let body = json!({ "conversationId": group, "seqs": vec![1; 101] });
    assert_field_refused(&node, &path("BatchGetReceipts"), &body, "seqs", "must hold at most 100").await;
    node.assert_healthy().await;
}

#[tokio::test]
async fn invalid_forms_sizes_and_tokens_are_refused() {
    let (node, _, group) = filled_by_service(3).await;
    for (method, fields) in &calls()[..2] {
        let body = with(fields.clone(), json!({ "conversationId": group, "form": 4 }));
        assert_field_refused(&node, method, &body, "form", "must be a known value").await;
    }
    for (method, fields) in &calls()[2..] {
        let right = with(fields.clone(), json!({ "conversationId": group }));
        let body = with(right.clone(), json!({ "pageSize": -1 }));
        assert_field_refused(&node, method, &body, "page_size", "must not be below 0").await;
        for token in ["x", "AAAA", "\u{1F600}"] {
            let body = with(right.clone(), json!({ "pageToken": token }));
            assert_field_refused(&node, method, &body, "page_token", "must").await;
        }
    }
    for (method, fields) in &calls()[..5] {
        let consistency = json!({ "atLeast": { "consistencyTokens": ["x"] } });
        let body = with(fields.clone(), json!({ "conversationId": group, "consistency": consistency }));
        let field = "consistency.at_least.consistency_tokens";
        assert_field_refused(&node, method, &body, field, "must hold tokens").await;
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn visibility_that_is_none_is_refused() {
    let (node, _, group) = filled_by_service(3).await;
    let id = &group[1..];
    let body = json!({ "group": { "groupId": id, "receipts": 4 }, "updateMask": "receipts" });
    let update = "/kith.group.v1.GroupService/UpdateGroup";
    assert_field_refused(&node, update, &body, "receipts", "must be a known value").await;
    let found = called(&node, "/kith.group.v1.GroupService/GetGroup", &json!({ "groupId": id })).await;
    assert_eq!(found.answer["group"]["version"].as_str().unwrap(), "1");
}

#[tokio::test]
async fn calls_at_the_limits_are_taken() {
    let (node, _, group) = filled_by_service(3).await;
    let body = json!({ "conversationId": group, "seqs": vec![1; 100], "form": 3 });
    let found = called(&node, &path("BatchGetReceipts"), &body).await;
    assert_eq!(found.answer["results"].as_array().map(Vec::len), Some(100));
    let none = called(&node, &path("BatchGetReceipts"), &json!({ "conversationId": group })).await;
    assert_eq!(none.answer, json!({}));
    let above = json!({ "conversationId": group, "seq": i64::MAX.to_string() });
    assert_eq!(
        called(&node, &path("GetReceipt"), &above).await.reason().as_deref(),
        Some("SEQ_OUT_OF_RANGE")
    );
}
