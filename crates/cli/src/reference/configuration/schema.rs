//! `docs/reference/kith.schema.json`: the JSON schema of `kith.toml`, by which editors complete and check it.

use serde_json::{Value, json};

use super::{ConfigKey, ValueKind, sections};
use crate::reference::markdown::one_line;

const DURATION: &str = r"^ *([0-9]+(\.[0-9]+)? *[a-zA-Zµ]+ *)+$|^0$";
const SIZE: &str = "^ *[0-9]+ *(B|kB|KB|MB|GB|KiB|MiB|GiB)? *$";
const ADDRESS: &str = "^.+:[0-9]{1,5}$";

/// Formats the document as text with a newline at its end.
pub(in crate::reference) fn write() -> String {
    let mut root = object();
    for section in sections() {
        let place = at(&mut root, &section.path);
        place["description"] = one_line(&section.doc).into();
        for key in &section.keys {
            place["properties"][name(&key.path)] = schema(key);
        }
    }
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "kith.toml, the configuration of a Kith node".into();
    // Writing cannot fail: the schema has only texts, numbers and objects with names.
    format!("{root:#}\n")
}

/// A configuration table, which has no other keys.
fn object() -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": {} })
}

/// Returns the table at this path. Tables on the way that have no keys are added.
fn at<'a>(root: &'a mut Value, path: &str) -> &'a mut Value {
    let parts = path.split('.').filter(|part| !part.is_empty());
    parts.fold(root, |table, part| {
        let inner = &mut table["properties"][part];
        if inner.is_null() {
            *inner = object();
        }
        inner
    })
}

fn name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or_default()
}

fn schema(key: &ConfigKey) -> Value {
    // A test compares these words in the docstring with the values that the configuration refuses.
    let least = i32::from(key.doc.contains("Above 0"));
    let mut schema = match key.kind.as_ref() {
        Some(ValueKind::Size) => json!({ "type": ["integer", "string"], "minimum": least, "pattern": SIZE }),
        Some(ValueKind::Duration) => json!({ "type": "string", "pattern": DURATION }),
        Some(ValueKind::Address) => json!({ "type": "string", "pattern": ADDRESS }),
        Some(ValueKind::Flag) => json!({ "type": "boolean" }),
        Some(ValueKind::WholeNumber) => json!({ "type": "integer", "minimum": least }),
        Some(ValueKind::Texts) => json!({ "type": "array", "items": { "type": "string" } }),
        Some(ValueKind::Tables) => json!({ "type": "array", "items": { "type": "object" } }),
        Some(ValueKind::Choice(choices)) => choice(choices),
        Some(ValueKind::Path | ValueKind::Text | ValueKind::Secret) => json!({ "type": "string" }),
        Some(ValueKind::Other(_)) | None => json!({}),
    };
    schema["description"] = key.doc.as_str().into();
    if !key.default.is_empty() {
        schema["default"] = default(key);
    }
    schema
}

fn choice(choices: &[(String, String)]) -> Value {
    let one = |(name, doc): &(String, String)| json!({ "const": name, "description": doc });
    json!({ "type": "string", "oneOf": choices.iter().map(one).collect::<Vec<_>>() })
}

fn default(key: &ConfigKey) -> Value {
    match key.kind {
        Some(ValueKind::Flag | ValueKind::WholeNumber) => key.default.parse().unwrap_or_default(),
        Some(ValueKind::Texts) => key.default.split(',').collect(),
        _ => key.default.as_str().into(),
    }
}
