//! Receipt calls at their limits: the same answer by gRPC and by JSON.

use serde_json::json;

use super::called;
use crate::message_calls::filled_by_service;

fn path(method: &str) -> String {
    format!("/kith.receipt.v1.ReceiptService/{method}")
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
