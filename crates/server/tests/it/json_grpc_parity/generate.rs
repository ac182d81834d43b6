//! Random messages by their descriptors: every field gets right, wrong and odd values.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};
use prost_types::FieldMask;
use rand::{Rng, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::json;

/// How often a field is there, and how often its value is wrong or odd.
const THERE: f64 = 0.7;
const ODD: f64 = 0.12;

/// Makes a random message.
pub fn message(rng: &mut StdRng, descriptor: &MessageDescriptor) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        let taken = field
            .containing_oneof()
            .is_some_and(|oneof| oneof.fields().any(|other| message.has_field(&other)));
        // Without the record that they are about, only odd calls would be left.
        let needed = matches!(field.name(), "user" | "group" | "user_id" | "group_id" | "key" | "keyword");
        if !taken && rng.random_bool(if needed { 0.95 } else { THERE }) {
            let value = value(rng, &field);
            message.set_field(&field, value);
        }
    }
    message
}

fn value(rng: &mut StdRng, field: &FieldDescriptor) -> Value {
    if field.is_map() {
        let count = rng.random_range(0..3);
        return Value::Map(
            (0..count)
                .map(|_| (MapKey::String(pick(rng, &PARAM_KEYS, &ODD_KEYS)), text(rng, field)))
                .collect(),
        );
    }
    if field.is_list() {
        let count = rng.random_range(0..4);
        return Value::List((0..count).map(|_| single(rng, field)).collect());
    }
    single(rng, field)
}

fn single(rng: &mut StdRng, field: &FieldDescriptor) -> Value {
    match field.kind() {
        Kind::Bool => Value::Bool(rng.random_bool(0.5)),
        Kind::Int32 => Value::I32(int32(rng, field.name())),
        Kind::Uint32 => Value::U32(if odd(rng) { 64 } else { rng.random_range(0..64) }),
        Kind::Int64 => Value::I64(int64(rng)),
        Kind::String => text(rng, field),
        Kind::Bytes => Value::Bytes(pick(rng, &["", "some", "words"], &[&"x".repeat(70_000)]).into()),
        Kind::Enum(kind) if !odd(rng) => {
            Value::EnumNumber(kind.values().collect::<Vec<_>>().choose(rng).unwrap().number())
        }
        Kind::Enum(_) => Value::EnumNumber(99),
        Kind::Message(kind) => Value::Message(inner(rng, &kind)),
        other => panic!("the contract has a new kind of field: {other:?}"),
    }
}

fn inner(rng: &mut StdRng, kind: &MessageDescriptor) -> DynamicMessage {
    let mut inner = DynamicMessage::new(kind.clone());
    match kind.full_name() {
        "google.protobuf.FieldMask" => inner.transcode_from(&mask(rng)).unwrap(),
        "google.protobuf.Timestamp" => {
            let seconds = rng.random_range(0..4_000_000_000);
            inner.transcode_from(&prost_types::Timestamp { seconds, nanos: 0 }).unwrap();
        }
        "google.protobuf.Duration" => {
            let (seconds, nanos) = (rng.random_range(0..200_000), rng.random_range(0..1_000_000_000));
            inner.transcode_from(&prost_types::Duration { seconds, nanos }).unwrap();
        }
        _ => inner = message(rng, kind),
    }
    inner
}

fn odd(rng: &mut StdRng) -> bool {
    rng.random_bool(ODD)
}

fn pick(rng: &mut StdRng, right: &[&str], odd_ones: &[&str]) -> String {
    let from = if odd(rng) { odd_ones } else { right };
    (*from.choose(rng).unwrap()).to_owned()
}

const NAMES: [&str; 9] = ["pwd", "ann", "Bob", "bob", "cid", "日本", "Ünal", "x y", "dora"];
const ODD_NAMES: [&str; 6] = ["", "admin", "zero\u{200b}width", "a\u{0}b", "\u{202e}left", " "];
const PARAM_KEYS: [&str; 5] = ["color", "theKey", "a_b", "x-1", "size"];
const ODD_KEYS: [&str; 5] = ["9x", "", "code", "pwd", "ä"];
const PATHS: [&str; 12] = [
    "user_name",
    "nick_name",
    "email",
    "age",
    "params",
    "params.color",
    "params.theKey",
    "params.a_b",
    "name",
    "tags",
    "join_policy",
    "region",
];
const ODD_PATHS: [&str; 6] = ["*", "bogus", "params.9x", "params.pwd", "params.", "user.name"];

fn mask(rng: &mut StdRng) -> FieldMask {
    let count = rng.random_range(0..4);
    FieldMask { paths: (0..count).map(|_| pick(rng, &PATHS, &ODD_PATHS)).collect() }
}

fn int64(rng: &mut StdRng) -> i64 {
    let right = rng.random_range(1..6);
    if odd(rng) { *[0, -1, i64::MAX, i64::MIN, 4711].choose(rng).unwrap() } else { right }
}

fn int32(rng: &mut StdRng, name: &str) -> i32 {
    let right = if name == "age" { rng.random_range(0..100) } else { rng.random_range(0..20) };
    if odd(rng) { *[-1, i32::MAX, i32::MIN, 151].choose(rng).unwrap() } else { right }
}

fn text(rng: &mut StdRng, field: &FieldDescriptor) -> Value {
    let long = "x".repeat(3000);
    Value::String(match field.name() {
        "user_name" | "name" | "names" | "keyword" | "nick_name" | "tags" => {
            pick(rng, &NAMES, &[&ODD_NAMES[..], &[&long]].concat())
        }
        "email" => pick(rng, &["", "a@b.example", "ann@b.example"], &["not one", &long]),
        "phone" => pick(rng, &["", "+491234567890"], &["12", "+12x4567890"]),
        // Nearly all are empty: otherwise most calls would only show that an id was used with another body.
        "request_id" => pick(rng, &[""], &["r1", "r2", "bad id!", &long]),
        "page_token" => pick(rng, &[""], &["garbage"]),
        "consistency_tokens" => pick(rng, &["garbage"], &["", &long]),
        "key" => pick(
            rng,
            &["user/1", "user/2", "group/1", "group/4711", "follow/1,2", "block/2,1"],
            &["user/zzz", "x", "/", ""],
        ),
        "gateway_id" => pick(rng, &["g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7"], &["", "a b", &long]),
        "device_id" => pick(rng, &["phone", "tablet"], &["", "a|b", &long]),
        "gateway_token" => pick(rng, &[""], &["garbage"]),
        "conversation_id" | "conversation_ids" => {
            pick(rng, &["d1-1", "d1-2", "d2-3", "g1", "g2"], &["", "d2-1", "g0", "x", &long])
        }
        "content_type" => pick(rng, &["text/plain", "a/b"], &["", "two\nlines", &long]),
        // Nearly all are empty, like request ids.
        "client_message_id" => pick(rng, &[""], &["m1", "m2", "bad id!", &long]),
        "namespace" => pick(rng, &["", "user", "group", "follow", "block"], &["nope"]),
        _ => pick(rng, &["", "some", "words \"and\" \\ marks\n"], &[&long, "\u{1f980}\u{7f}"]),
    })
}

/// Formats the message as JSON: numbers now and then as numbers, names and paths in either form.
pub fn json(rng: &mut StdRng, message: &DynamicMessage) -> serde_json::Value {
    let mut object = serde_json::Map::new();
    for (field, value) in message.fields() {
        let name = if rng.random_bool(0.5) { field.json_name() } else { field.name() };
        object.insert(name.to_owned(), json_value(rng, value));
    }
    serde_json::Value::Object(object)
}

fn json_value(rng: &mut StdRng, value: &Value) -> serde_json::Value {
    match value {
        Value::Bool(value) => json!(value),
        Value::I32(value) if rng.random_bool(0.3) => json!(value.to_string()),
        Value::I32(value) | Value::EnumNumber(value) => json!(value),
        Value::U32(value) if rng.random_bool(0.3) => json!(value.to_string()),
        Value::U32(value) => json!(value),
        Value::I64(value) if rng.random_bool(0.3) => json!(value),
        Value::I64(value) => json!(value.to_string()),
        Value::String(text) => json!(text),
        Value::Bytes(bytes) => json!(STANDARD.encode(bytes)),
        Value::List(items) => items.iter().map(|item| json_value(rng, item)).collect(),
        Value::Map(entries) => {
            let entries =
                entries.iter().map(|(key, value)| (key.as_str().unwrap().to_owned(), json_value(rng, value)));
            serde_json::Value::Object(entries.collect())
        }
        Value::Message(message) => json_message(rng, message),
        other => panic!("the contract has a new kind of field: {other:?}"),
    }
}

fn json_message(rng: &mut StdRng, message: &DynamicMessage) -> serde_json::Value {
    match message.descriptor().full_name() {
        "google.protobuf.FieldMask" => {
            let mask: FieldMask = message.transcode_to().unwrap();
            let paths =
                mask.paths.iter().map(|path| if rng.random_bool(0.5) { path.clone() } else { camel(path) });
            let paths = paths.collect::<Vec<_>>();
            if rng.random_bool(0.5) { json!(paths.join(",")) } else { json!({ "paths": paths }) }
        }
        "google.protobuf.Timestamp" | "google.protobuf.Duration" => serde_json::to_value(message).unwrap(),
        _ => json(rng, message),
    }
}

/// Returns a path's first part in JSON form.
fn camel(path: &str) -> String {
    let (field, key) = path.split_once('.').map_or((path, None), |(field, key)| (field, Some(key)));
    let mut camel = String::new();
    let mut above = false;
    for letter in field.chars() {
        if letter == '_' {
            above = true;
        } else if std::mem::take(&mut above) {
            camel.push(letter.to_ascii_uppercase());
        } else {
            camel.push(letter);
        }
    }
    key.map_or(camel.clone(), |key| format!("{camel}.{key}"))
}
