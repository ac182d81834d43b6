//! Recalls and edits of messages as tests make them.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "every test file uses a part; a test may panic"
)]

use kith_proto::message::v1::*;
use tonic::Status;

use crate::node::{TestNode, principal};

pub fn to_recall(conversation: &str, seq: i64) -> RecallMessageRequest {
    RecallMessageRequest { conversation_id: conversation.to_owned(), seq, ..Default::default() }
}

pub async fn recall(
    node: &TestNode,
    by: i64,
    conversation: &str,
    seq: i64,
) -> Result<RecallMessageResponse, Status> {
    recall_with(node, by, to_recall(conversation, seq)).await
}

pub async fn recall_with(
    node: &TestNode,
    by: i64,
    request: RecallMessageRequest,
) -> Result<RecallMessageResponse, Status> {
    Ok(node.messages().recall_message(principal(by, request)).await?.into_inner())
}

/// As a service, for the user that the request names.
pub async fn recall_as_service(
    node: &TestNode,
    request: RecallMessageRequest,
) -> Result<RecallMessageResponse, Status> {
    Ok(node.messages().recall_message(request).await?.into_inner())
}

/// An edit to a text.
pub fn to_edit(conversation: &str, seq: i64, text: &str) -> EditMessageRequest {
    EditMessageRequest {
        conversation_id: conversation.to_owned(),
        seq,
        content_type: "text/plain".into(),
        body: text.to_owned().into(),
        ..Default::default()
    }
}

pub async fn edit(
    node: &TestNode,
    by: i64,
    request: EditMessageRequest,
) -> Result<EditMessageResponse, Status> {
    Ok(node.messages().edit_message(principal(by, request)).await?.into_inner())
}

/// As a service, for the user that the request names.
pub async fn edit_as_service(
    node: &TestNode,
    request: EditMessageRequest,
) -> Result<EditMessageResponse, Status> {
    Ok(node.messages().edit_message(request).await?.into_inner())
}
