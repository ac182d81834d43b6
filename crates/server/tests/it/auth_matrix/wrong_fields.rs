//! Each field of each unary request, with values that no field of its name and kind may have: the error names
//! the field. A new field is checked without a new test.

use kith_proto::r#type::v1::{AtLeast, Consistency, consistency::Level};
use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _, Value};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{Cell, known};
use crate::{
    json_grpc_parity::raw,
    moments::{OUTPUT_ONLY, WRONG_MOMENTS, WRONG_TIMES},
    policy::bad_input::WRONG_IDS,
    secured_node::{ALL, SecuredNode, by},
};

/// Fields that a service may leave out, by method: the call is about no user, or a default holds.
const MAY_BE_ABSENT: [&str; 13] = [
    "UpdateNotice.update_mask",
    "PullMessages.user_id",
    "PullBySeqs.user_id",
    "History.user_id",
    "GetSeqByTime.user_id",
    "GetMaxSeqs.user_id",
    "RecallMessage.user_id",
    "EditMessage.user_id",
    "BatchGetReactions.user_id",
    "ListReactions.user_id",
    "SendMessage.sender_id",
    "ListNotices.reader_id",
    "CreateGroup.creator_id",
];
/// Fields that come after a cursor, which no request of the matrix has.
const OTHERWISE: [&str; 1] = ["ReadChanges.limit"];

/// A request that differs from a right request in one field.
struct Variant {
    field: String,
    /// The field is left out.
    is_absent: bool,
    request: DynamicMessage,
}

/// Makes lists of one wrong value, and of a right value before it.
fn lists(right: &Value, wrong: impl IntoIterator<Item = Value>) -> Vec<Value> {
    wrong.into_iter().map(|wrong| Value::List(vec![right.clone(), wrong])).collect()
}

fn texts(of: &[&str]) -> Vec<Value> {
    of.iter().map(|text| Value::String((*text).to_owned())).collect()
}

fn transcoded(kind: &MessageDescriptor, message: &impl Message) -> Value {
    let mut dynamic = DynamicMessage::new(kind.clone());
    dynamic.transcode_from(message).unwrap();
    Value::Message(dynamic)
}

/// Returns the wrong values for a field. Texts have a table of their own.
fn wrong_values(field: &FieldDescriptor) -> Vec<Value> {
    let long = "x".repeat(65);
    let is_id = |ending: &str| field.name().ends_with(ending);
    match (field.name(), field.kind()) {
        ("request_id" | "client_message_id", _) => texts(&["a b", "ä", "a/b", "a:b", &long]),
        ("page_token", _) => texts(&["x", "AAAA", "\u{1F600}"]),
        ("conversation_id", _) => texts(&WRONG_IDS),
        ("conversation_ids", _) => lists(&Value::String("g5".to_owned()), texts(&WRONG_IDS)),
        ("update_mask", Kind::Message(mask)) => {
            let paths = |paths: &[&str]| {
                let mut message = DynamicMessage::new(mask.clone());
                message.set_field_by_name("paths", Value::List(texts(paths)));
                Value::Message(message)
            };
            let one =
                ["no_such", "version", "", "user_id", "pwd", "params.", "params.$x", "params.x.$[]", "a.b"];
            one.iter().map(|path| paths(&[*path])).collect()
        }
        ("consistency", Kind::Message(kind)) => {
            let level = Level::AtLeast(AtLeast { consistency_tokens: vec!["forged".to_owned()] });
            vec![transcoded(&kind, &Consistency { level: Some(level) })]
        }
        _ if OUTPUT_ONLY.contains(&field.full_name()) => vec![],
        (_, Kind::Message(kind)) if kind.full_name() == "google.protobuf.Timestamp" => {
            WRONG_MOMENTS.map(|moment| transcoded(&kind, &moment)).into()
        }
        (_, Kind::Message(kind)) if kind.full_name() == "google.protobuf.Duration" => {
            WRONG_TIMES.map(|time| transcoded(&kind, &time)).into()
        }
        (_, Kind::Enum(_)) if !field.is_list() => [99, -1].map(Value::EnumNumber).into(),
        ("seq", _) => [0, -1, i64::MIN].map(Value::I64).into(),
        ("at_least", Kind::Message(position)) => {
            let right = [("conversation_id", Value::String("g5".to_owned())), ("seq", Value::I64(1))];
            let wrong = texts(&WRONG_IDS).into_iter().map(|id| ("conversation_id", id));
            let wrong = wrong.chain([("seq", Value::I64(-1))]);
            let position = |wrong| {
                let mut message = DynamicMessage::new(position.clone());
                for (name, value) in right.iter().cloned().chain([wrong]) {
                    message.set_field_by_name(name, value);
                }
                Value::List(vec![Value::Message(message)])
            };
            wrong.map(position).collect()
        }
        ("page_size" | "limit", _) => [-1, i32::MIN].map(Value::I32).into(),
        ("seqs", _) => lists(&Value::I64(1), [0, -1, i64::MIN].map(Value::I64)),
        (_, Kind::Int64) if is_id("_ids") => lists(&Value::I64(9), [0, -1, i64::MIN].map(Value::I64)),
        (_, Kind::Int32) if is_id("_ids") => lists(&Value::I32(1), [0, -1, i32::MIN].map(Value::I32)),
        (_, Kind::Int32) if is_id("_id") => [0, -1, i32::MIN].map(Value::I32).into(),
        (name, Kind::Int64) if is_id("_id") || is_id("seq") || name == "expected_version" => {
            [-1, i64::MIN].map(Value::I64).into()
        }
        _ => vec![],
    }
}

/// Returns requests that differ from a right request in one wrong field.
fn variants(right: &DynamicMessage) -> Vec<Variant> {
    let mut all = Vec::new();
    let is_patch = right.descriptor().get_field_by_name("update_mask").is_some();
    for field in right.descriptor().fields() {
        let with = |field: &FieldDescriptor, value| {
            let mut request = right.clone();
            request.set_field(field, value);
            request
        };
        let name = field.name().to_owned();
        for value in wrong_values(&field) {
            all.push(Variant { field: name.clone(), is_absent: false, request: with(&field, value) });
        }
        if !right.has_field(&field) {
            continue;
        }
        let mut request = right.clone();
        request.clear_field(&field);
        // Without a member, an error names the group of fields.
        if field.containing_oneof().is_some() && field.kind() == Kind::Int64 {
            request.set_field(&field, Value::I64(0));
        }
        if name == "update_mask" || field.kind() == Kind::Int64 && name.ends_with("_id") {
            all.push(Variant { field: name, is_absent: true, request });
            continue;
        }
        let Kind::Message(kind) = field.kind() else { continue };
        if !kind.full_name().starts_with("kith.") {
            continue;
        }
        if !field.is_list() && field.containing_oneof().is_none() {
            all.push(Variant { field: name, is_absent: false, request });
        }
        let value = right.get_field(&field);
        let inner = value.as_list().map_or(&*value, |list| &list[0]).as_message().unwrap();
        // Of a patch's record, the id is read, and what the mask names.
        let given = |name: &str| inner.has_field_by_name(name) && name.ends_with("_id");
        let is_read = |inner: &Variant| !is_patch || given(&inner.field);
        for inner in variants(inner).into_iter().filter(is_read) {
            let value = Value::Message(inner.request);
            let value = if field.is_list() { Value::List(vec![value]) } else { value };
            all.push(Variant { request: with(&field, value), ..inner });
        }
    }
    all
}

/// Returns whether a call was refused because of this field.
fn is_refused(status: &Status, field: &str) -> bool {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    let named = details.bad_request().map(|bad| bad.field_violations[0].field.clone()).unwrap_or_default();
    let name = named.rsplit('.').next().unwrap();
    let is_named = match field {
        "consistency" => name == "consistency_tokens",
        "at_least" => ["conversation_id", "seq"].contains(&name),
        other => name == other,
    };
    (status.code(), reason) == (Code::InvalidArgument, Some("INVALID_FIELD")) && is_named
}

#[tokio::test]
async fn wrong_values_are_refused_by_their_field() {
    let node = SecuredNode::start([]).await;
    let replacements = known::create(&node).await;
    let (mut wrong, mut calls) = (Vec::new(), 0);
    for cell in Cell::all(&replacements).iter().filter(|cell| cell.is_unary()) {
        for Variant { field, is_absent, request } in variants(&cell.request(cell.me())) {
            let place = format!("{}.{field}", cell.method.name());
            if OTHERWISE.contains(&place.as_str()) {
                continue;
            }
            calls += 1;
            let is_right = is_absent && MAY_BE_ABSENT.contains(&place.as_str());
            let answer = raw::call(&node.channel, &cell.path, by(ALL, request.encode_to_vec())).await;
            if answer.as_ref().is_err_and(|status| is_refused(status, &field)) == is_right {
                wrong.push(format!("{place}: {request:?}: {answer:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {calls}: {wrong:#?}", wrong.len());
    assert!(calls > 2_000, "{calls}");
}
