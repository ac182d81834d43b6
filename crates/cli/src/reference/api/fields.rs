//! Documents message fields and their types.

use kith_server::descriptors::comments::{Comments, field_number, index};
use prost_types::{DescriptorProto, FieldDescriptorProto, field_descriptor_proto::Type};

use crate::reference::markdown::code;

/// Returns a row for every field: name, number, type, meaning.
pub(super) fn rows(message: &DescriptorProto, comments: &Comments, path: &[i32]) -> Vec<[String; 4]> {
    let row = |(at, field): (usize, &FieldDescriptorProto)| {
        let path = [path, &[field_number::FIELDS, index(at)]].concat();
        let mut meaning = comments.at(&path);
        if let Some(one_of) = one_of(message, field) {
            meaning = format!("One of `{one_of}`. {meaning}");
        }
        [code(field.name()), field.number().to_string(), kind(message, field), meaning]
    };
    message.field.iter().enumerate().map(row).collect()
}

/// Returns the name of the choice that a field belongs to.
fn one_of<'a>(message: &'a DescriptorProto, field: &FieldDescriptorProto) -> Option<&'a str> {
    if field.proto3_optional() {
        return None;
    }
    let at = usize::try_from(field.oneof_index?).ok()?;
    message.oneof_decl.get(at).map(prost_types::OneofDescriptorProto::name)
}

fn kind(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    if let Some([key, value]) = entry(message, field) {
        return format!("map of {} to {}", single(key), single(value));
    }
    let single = single(field);
    match field.label() {
        prost_types::field_descriptor_proto::Label::Repeated => format!("repeated {single}"),
        _ if field.proto3_optional() => format!("optional {single}"),
        _ => single,
    }
}

/// Returns key and value if the field is a map: protobuf writes a map as a nested message.
fn entry<'a>(
    message: &'a DescriptorProto,
    field: &FieldDescriptorProto,
) -> Option<&'a [FieldDescriptorProto; 2]> {
    let name = field.type_name().rsplit('.').next()?;
    let nested = message.nested_type.iter().find(|nested| nested.name() == name)?;
    nested.options.as_ref()?.map_entry().then(|| nested.field.as_slice().try_into().ok())?
}

fn single(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum | Type::Group => named(field.type_name()),
        other => other.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    }
}

/// Links to a type in the contract; a protobuf type is given by its whole name.
pub(super) fn named(full: &str) -> String {
    let full = full.trim_start_matches('.');
    let short = full.rsplit('.').next().unwrap_or(full);
    if full.starts_with("kith.") { format!("[{short}](#{full})") } else { code(full) }
}
