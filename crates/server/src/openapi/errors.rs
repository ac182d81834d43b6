//! Schemas for the answers to failed calls.

use serde_json::{Value, json};

use super::operations::content;
use crate::json::code_names;

pub(super) fn schemas() -> [(String, Value); 2] {
    [("Error".to_owned(), error()), ("ErrorDetail".to_owned(), detail())]
}

/// Builds the error response that every operation has.
pub(super) fn response() -> Value {
    json!({
        "description": "The call failed. The code of HTTP follows from `code`.",
        "content": content(&json!({ "$ref": "#/components/schemas/Error" })),
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "A gRPC status. Branch on the reason in its details, never on the message.",
        "required": ["code", "message"],
        "properties": {
            "code": { "type": "string", "enum": code_names(), "description": "The gRPC code." },
            "message": { "type": "string", "description": "For people. Its words may change." },
            "details": { "type": "array", "items": { "$ref": "#/components/schemas/ErrorDetail" } },
        },
    })
}

fn detail() -> Value {
    json!({
        "type": "object",
        "required": ["type", "value"],
        "properties": {
            "type": {
                "type": "string",
                "description": "`google.rpc.ErrorInfo`, which has the reason; `google.rpc.BadRequest`, which names the field; \
                                `google.rpc.RetryInfo`; `google.rpc.Help`.",
            },
            "value": {
                "type": "string",
                "contentEncoding": "base64",
                "description": "The detail as protobuf, in base64 without padding.",
            },
            "debug": {
                "type": "object",
                "description": "The detail as JSON: `reason`, `domain` and `metadata` of an ErrorInfo, `fieldViolations` of a BadRequest, \
                                `retryDelay` of a RetryInfo.",
            },
        },
    })
}
