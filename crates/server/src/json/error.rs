//! Errors for texts that cannot be decoded. They contain no values, which may be secrets.

use kith_service::error::{Error, Reason};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::error::Category;
use tonic::Status;

use super::path_deserializer::{FieldError, PathTarget, PathTracker};
use kith_store::Invalid;

/// Least similarity at which a name is proposed, up to 1.
const ALIKE: f64 = 0.8;

/// The reason why a text is not a valid message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    /// The text is empty.
    Empty,
    /// The parser's error, with line and column.
    NotJson(String),
    /// The value has another type.
    NotAnObject,
    /// A field, by its path, and its error.
    Field(String, String),
}

impl ReadError {
    /// Describes a reader's error at its position.
    pub(super) fn of(tracker: &PathTracker, error: &serde_json::Error, empty: bool) -> Self {
        if empty {
            return Self::Empty;
        }
        let (name, target) = tracker.trace();
        match error.classify() {
            Category::Data => of_field(tracker, name, &target),
            Category::Syntax | Category::Eof | Category::Io => {
                // These texts are fixed: they contain line and column, but no input.
                let within = if name.is_empty() { String::new() } else { format!(", in {name}") };
                Self::NotJson(format!("{error}{within}"))
            }
        }
    }

    /// The error as the answer to a call.
    pub(super) fn status(self) -> Box<Status> {
        let malformed = |text: String| Box::new(Error::new(Reason::MalformedMessage, text).into());
        match self {
            Self::Empty => malformed("the body is empty; it must be a JSON object, {} at least".to_owned()),
            Self::NotJson(why) => malformed(format!("the body is not JSON: {why}")),
            Self::NotAnObject => malformed("the body must be a JSON object".to_owned()),
            Self::Field(name, why) => Box::new(Error::invalid(name, &Invalid::new(why)).into()),
        }
    }

    /// The error as the text after a line number.
    pub(super) fn line(self) -> String {
        match self {
            Self::Empty => "empty".to_owned(),
            Self::NotJson(why) => format!("not JSON: {}", why.replace("line 1 column", "column")),
            Self::NotAnObject => "not a JSON object".to_owned(),
            Self::Field(name, why) => format!("{name} {why}"),
        }
    }
}

fn of_field(tracker: &PathTracker, name: String, target: &PathTarget) -> ReadError {
    let why = match (tracker.why(), target) {
        (Some(FieldError::Twice), _) => "is given twice".to_owned(),
        (Some(FieldError::Read), _) => "excludes another field that is given; give one of them".to_owned(),
        (None, PathTarget::Unknown(message, key)) => unknown(message, key),
        (None, PathTarget::Root) => return ReadError::NotAnObject,
        (None, PathTarget::Field(field)) if field.is_list() => {
            format!("must be a list, each of which {}", expected(&field.kind()))
        }
        (None, PathTarget::Field(field)) if field.is_map() => "must be an object".to_owned(),
        (None, PathTarget::Field(field)) => expected(&field.kind()),
        (None, PathTarget::Value(field)) => value_of(field),
    };
    ReadError::Field(name, why)
}

fn value_of(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => expected(&entry.map_entry_value_field().kind()),
        kind => expected(&kind),
    }
}

/// The form that a value with this type must have.
fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => "must be a whole number of 32 bits".to_owned(),
        Kind::Uint32 | Kind::Fixed32 => "must be a whole number of 32 bits, not below 0".to_owned(),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "must be a whole number of 64 bits".to_owned(),
        Kind::Uint64 | Kind::Fixed64 => "must be a whole number of 64 bits, not below 0".to_owned(),
        Kind::Float | Kind::Double => "must be a number".to_owned(),
        Kind::Bool => "must be true or false".to_owned(),
        Kind::String => "must be a string".to_owned(),
        Kind::Bytes => "must be a string of base64".to_owned(),
        Kind::Enum(kind) => {
            let names: Vec<_> = kind.values().map(|value| value.name().to_owned()).collect();
            format!("must be one of {}", names.join(", "))
        }
        Kind::Message(message) => match message.full_name() {
            "google.protobuf.Timestamp" => "must be a time such as \"2026-01-31T12:00:00Z\"",
            "google.protobuf.Duration" => "must be a duration such as \"1.5s\"",
            "google.protobuf.FieldMask" => {
                "must be a string of fields with commas between, or {\"paths\": [...]}"
            }
            _ => "must be an object",
        }
        .to_owned(),
    }
}

/// An unknown name, with a similar name that may have been meant.
fn unknown(message: &MessageDescriptor, key: &str) -> String {
    let alike = |field: &FieldDescriptor| {
        strsim::jaro_winkler(field.json_name(), key).max(strsim::jaro_winkler(field.name(), key))
    };
    let meant = message
        .fields()
        .map(|field| (alike(&field), field))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    let hint = meant.map_or(String::new(), |(_, field)| format!("; did you mean {}?", field.json_name()));
    format!("is no field of {}{hint}", message.name())
}

/// The text is too large.
pub(super) fn too_large(most: usize, key: &str) -> Status {
    Error::new(Reason::MessageTooLarge, format!("the body is larger than {most} bytes ({key})")).into()
}
