//! Messages and enums as schemas, by their full names in the contract.

use std::collections::BTreeMap;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::{ContractComments, described};

/// The schemas that were asked for so far, with all that they contain.
pub(super) struct OpenApiSchemas<'a> {
    comments: &'a ContractComments,
    found: BTreeMap<String, Value>,
}

impl<'a> OpenApiSchemas<'a> {
    pub(super) fn new(comments: &'a ContractComments) -> Self {
        Self { comments, found: BTreeMap::new() }
    }

    /// A reference to a message, whose schema is added.
    pub(super) fn reference(&mut self, message: &MessageDescriptor) -> Value {
        if !self.found.contains_key(message.full_name()) {
            // A message may contain itself.
            self.found.insert(message.full_name().to_owned(), Value::Null);
            let schema = self.message(message);
            self.found.insert(message.full_name().to_owned(), schema);
        }
        reference_to(message.full_name())
    }

    /// Like [`Self::reference`], but for a request's message, which has no other fields.
    pub(super) fn request(&mut self, message: &MessageDescriptor) -> Value {
        let reference = self.reference(message);
        if let Some(schema) = self.found.get_mut(message.full_name()) {
            schema["additionalProperties"] = false.into();
        }
        reference
    }

    pub(super) fn into_map(self) -> BTreeMap<String, Value> {
        self.found
    }

    fn message(&mut self, message: &MessageDescriptor) -> Value {
        let properties: Map<String, Value> =
            message.fields().map(|field| (field.json_name().to_owned(), self.field(&field))).collect();
        let schema = json!({ "type": "object", "properties": properties });
        described(schema, &self.comments.at(&message.parent_file(), message.path()))
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        let comment = self.comments.at(&field.parent_message().parent_file(), field.path());
        let text = match field.containing_oneof().filter(|choice| !choice.is_synthetic()) {
            Some(choice) => format!("One of `{}`. {comment}", choice.name()).trim_end().to_owned(),
            None => comment,
        };
        described(self.value(field), &text)
    }

    fn value(&mut self, field: &FieldDescriptor) -> Value {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                let value = self.single(&entry.map_entry_value_field().kind());
                json!({ "type": "object", "additionalProperties": value })
            }
            kind if field.is_list() => json!({ "type": "array", "items": self.single(&kind) }),
            kind => self.single(&kind),
        }
    }

    fn single(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::String => json!({ "type": "string" }),
            Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
            Kind::Float | Kind::Double => json!({ "type": "number" }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({ "type": "integer", "format": "int32" }),
            Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => whole_number("int64", "^-?[0-9]+$"),
            Kind::Uint64 | Kind::Fixed64 => whole_number("uint64", "^[0-9]+$"),
            Kind::Enum(values) => self.values(values),
            Kind::Message(message) => {
                well_known(message.full_name()).unwrap_or_else(|| self.reference(message))
            }
        }
    }

    fn values(&mut self, values: &EnumDescriptor) -> Value {
        if !self.found.contains_key(values.full_name()) {
            let names: Vec<_> = values.values().map(|value| value.name().to_owned()).collect();
            let text = self.values_text(values);
            let schema = described(json!({ "type": "string", "enum": names }), &text);
            self.found.insert(values.full_name().to_owned(), schema);
        }
        reference_to(values.full_name())
    }

    /// An enum's comment and, as a list, its values' comments.
    fn values_text(&self, values: &EnumDescriptor) -> String {
        let file = values.parent_file();
        let lines = values.values().filter_map(|value| {
            let comment = self.comments.at(&file, value.path());
            (!comment.is_empty()).then(|| format!("- `{}`: {}", value.name(), comment.replace('\n', " ")))
        });
        let lines = lines.collect::<Vec<_>>().join("\n");
        format!("{}\n\n{lines}", self.comments.at(&file, values.path())).trim().to_owned()
    }
}

/// 64-bit integers are strings in JSON, whose numbers need not hold them.
fn whole_number(format: &str, pattern: &str) -> Value {
    json!({ "type": "string", "format": format, "pattern": pattern })
}

fn reference_to(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Messages with a JSON form of their own.
fn well_known(name: &str) -> Option<Value> {
    let schema = match name {
        "google.protobuf.Timestamp" => json!({ "type": "string", "format": "date-time" }),
        "google.protobuf.Duration" => json!({ "type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$" }),
        "google.protobuf.FieldMask" => json!({ "type": "string" }),
        _ => return None,
    };
    Some(schema)
}
