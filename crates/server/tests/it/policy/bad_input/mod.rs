//! Bad input, by the rows in the attack table: the stated code, reason and field, and a healthy node
//! afterwards. Calls that have a JSON form are made by gRPC and by JSON.

mod changes;
mod dialogs;
mod limits;
mod messages;
mod notices;
mod receipts;
mod receive;
mod relations;
mod sequences;
mod users;

use prost_reflect::DynamicMessage;
use serde_json::Value;

use crate::http::Connection;
use crate::json_grpc_parity::{Outcome, Rpc, by_grpc, by_json, rpcs};
use crate::node::TestNode;

/// Texts that are no conversation ids.
pub const WRONG_IDS: [&str; 31] = [
    "",
    "d",
    "g",
    "7",
    "d7",
    "d8-7",
    "d7-",
    "d-7",
    "d0-7",
    "d0-8",
    "d7--8",
    "d7-8-9",
    "d7,8",
    "g0",
    "g-1",
    "g9 ",
    "d7-8 ",
    " d7-8",
    "d7 -8",
    "d07-8",
    "d7-08",
    "g09",
    "d+7-8",
    "G9",
    "x9",
    "o0",
    "g9223372036854775808",
    // This text has 41 characters.
    "d1000000000000000000-10000000000000000000",
    "g９",
    "d7-8\n",
    "g9\u{200B}",
];

/// Returns a message method, or another service's method if its path is given.
pub fn rpc(method: &str) -> Rpc {
    let path = match method.strip_prefix('/') {
        Some(_) => method.to_owned(),
        None => format!("/kith.message.v1.MessageService/{method}"),
    };
    rpcs().into_iter().find(|rpc| rpc.path == path).unwrap()
}

/// Returns a call's result, which is equal by gRPC and by JSON.
pub async fn called(node: &TestNode, method: &str, body: &Value) -> Outcome {
    let rpc = rpc(method);
    let message = DynamicMessage::deserialize(rpc.input.clone(), body.clone()).unwrap();
    let mut connection = Connection::open(node.address).await;
    let by_json = by_json(&mut connection, &rpc, &[], body).await;
    assert_eq!(by_json, by_grpc(node, &rpc, &[], &message).await, "{method} {body}");
    by_json
}

/// Returns a call's result by JSON alone: a write that is made twice has another answer.
pub async fn called_once(node: &TestNode, method: &str, body: &Value) -> Outcome {
    by_json(&mut Connection::open(node.address).await, &rpc(method), &[], body).await
}

/// Checks that a call is refused because of a field; `why` is a part of the text that follows the field's
/// name.
pub async fn assert_field_refused(node: &TestNode, method: &str, body: &Value, field: &str, why: &str) {
    let outcome = called(node, method, body).await;
    assert_eq!(outcome.code, "invalid_argument", "{method} {body}: {outcome:?}");
    assert_eq!(outcome.reason().as_deref(), Some("INVALID_FIELD"), "{method} {body}: {outcome:?}");
    assert_eq!(outcome.field().as_deref(), Some(field), "{method} {body}: {outcome:?}");
    let name = field.rsplit('.').next().unwrap();
    let text = outcome.message.strip_prefix(field).or_else(|| outcome.message.strip_prefix(name));
    let text = text.unwrap_or_default();
    assert!(text.contains(why), "{method} {body}: {outcome:?}");
}

/// Like [`assert_field_refused`], for each method, body, field and text.
pub async fn assert_all_refused<M: AsRef<str>>(
    node: &TestNode,
    calls: impl IntoIterator<Item = (M, Value, &str, &str)>,
) {
    for (method, body, field, why) in calls {
        assert_field_refused(node, method.as_ref(), &body, field, why).await;
    }
    node.assert_healthy().await;
}

/// Returns a valid request with these fields replaced.
pub fn with(mut right: Value, mut fields: Value) -> Value {
    right.as_object_mut().unwrap().append(fields.as_object_mut().unwrap());
    right
}
