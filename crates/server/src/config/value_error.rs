//! The error for a value that is refused: the value, and what it must be.

use std::{io, path::Path};

use figment::{error::Kind, value::Value};

/// Longest value that is repeated in an error.
const SHOWN_MAX: usize = 60;

/// Whether a value with this default may be repeated: every secret is absent by default, and a value in the
/// place of a section or a list could hold a secret.
pub(super) fn is_shown(default: &Value) -> bool {
    matches!(default, Value::String(..) | Value::Bool(..) | Value::Num(..) | Value::Char(..))
}

/// The reason why `given` is refused. `None` where it may not be repeated.
pub(super) fn refused(kind: &Kind, given: Option<&Value>) -> String {
    let given = given.and_then(text).unwrap_or_else(|| "the value".to_owned());
    format!("{given} cannot be taken; {}", wanted(kind))
}

/// Describes why the file that `key` names cannot be read.
pub(super) fn unreadable(key: &str, path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => format!("{key}: there is no file {path}; make it, or name another"),
        io::ErrorKind::PermissionDenied => {
            format!("{key}: {path} may not be read by this user; give it the right to, or name another")
        }
        io::ErrorKind::IsADirectory => format!("{key}: {path} is a folder; name a file"),
        io::ErrorKind::InvalidData => format!("{key}: {path} is not UTF-8; write it again"),
        _ => format!("{key}: {path} cannot be read ({}); name another file", error.kind()),
    }
}

fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(_, text) => format!("{text:?}"),
        Value::Char(_, text) => format!("{text:?}"),
        Value::Bool(_, value) => value.to_string(),
        Value::Num(_, number) => match (number.to_i128(), number.to_u128(), number.to_f64()) {
            (Some(number), ..) => number.to_string(),
            (_, Some(number), _) => number.to_string(),
            (.., number) => number?.to_string(),
        },
        _ => return None,
    };
    (text.len() <= SHOWN_MAX).then_some(text)
}

fn wanted(kind: &Kind) -> String {
    match kind {
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => {
            format!("it must be {}", words(expected))
        }
        Kind::UnknownVariant(_, expected) => format!("it must be one of {}", expected.join(", ")),
        // Parsers' texts, which may contain the value, are replaced by a fixed text for the type.
        Kind::Message(why) if why == "invalid socket address syntax" => {
            "it must be an address and a port, as 127.0.0.1:7600".to_owned()
        }
        Kind::Message(why) if why.starts_with("invalid value") => "it must be of another form".to_owned(),
        Kind::Message(why) => why.clone(),
        _ => "it must be of another kind".to_owned(),
    }
}

/// The names that readers use for kinds of values.
fn words(expected: &str) -> &str {
    match expected {
        "usize" | "u64" | "u32" | "u16" | "an unsigned integer" => "a whole number of 0 or above",
        "f64" | "f32" => "a number",
        "bool" | "a boolean" => "true or false",
        "a duration" => "a time with its unit, as 500ms, 10s or 5m",
        _ if expected.starts_with("struct ") => "a section with keys of its own",
        "socket address" => "an address and a port, as 127.0.0.1:7600",
        other => other,
    }
}
