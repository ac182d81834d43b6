//! `api.md`, generated from the descriptors that the node serves by reflection.

mod fields;

use kith_server::descriptors::comments::{Comments, field_number, index};
use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    ServiceDescriptorProto, method_options::IdempotencyLevel,
};

use super::markdown::{begin, code, ended, paragraphs, table};

const HEAD: &str = "\
The contract is in `proto/`; a running node returns it by reflection. Errors are explained in `docs/reference/errors.md`. All \
ids are above 0. A field that is not set has the zero value of its type.

";

pub(super) fn write() -> String {
    let set = FileDescriptorSet::decode(kith_proto::DESCRIPTOR_SET).unwrap_or_default();
    let own: Vec<_> = set.file.iter().filter(|file| file.package().starts_with("kith.")).collect();
    let mut text = begin("API", "the comments in `proto/`") + HEAD + &contents(&own);
    let (services, types): (Vec<_>, Vec<_>) = own.into_iter().partition(|file| !file.service.is_empty());
    for file in services.into_iter().chain(types) {
        text += &describe(file);
    }
    ended(&text)
}

/// Lists every method with its kind, linked.
fn contents(files: &[&FileDescriptorProto]) -> String {
    let mut rows = Vec::new();
    for file in files {
        for service in &file.service {
            let full = format!("{}.{}", file.package(), service.name());
            rows.extend(service.method.iter().map(|method| {
                [
                    link(&full, service.name()),
                    link(&format!("{full}.{}", method.name()), method.name()),
                    kind(method).to_owned(),
                ]
            }));
        }
    }
    table(["service", "method", "kind"], &rows)
}

fn link(anchor: &str, text: &str) -> String {
    format!("[{text}](#{anchor})")
}

fn anchor(name: &str) -> String {
    format!("<a id=\"{name}\"></a>\n\n")
}

fn describe(file: &FileDescriptorProto) -> String {
    let comments = Comments::of(file);
    let mut text = String::new();
    for (at, one) in file.service.iter().enumerate() {
        text += &service(file.package(), one, &comments, at);
    }
    if file.service.is_empty() {
        text += &format!("## {} ({})\n\n", file.package(), file.name());
    }
    for (at, one) in file.message_type.iter().enumerate() {
        text += &message(file.package(), one, &comments, &[field_number::MESSAGES, index(at)]);
    }
    for (at, one) in file.enum_type.iter().enumerate() {
        text += &values(file.package(), one, &comments, &[field_number::ENUMS, index(at)]);
    }
    text
}

fn service(package: &str, service: &ServiceDescriptorProto, comments: &Comments, at: usize) -> String {
    let full = format!("{package}.{}", service.name());
    let path = [field_number::SERVICES, index(at)];
    let mut text = format!("## {}\n\n{}`{full}`\n\n", service.name(), anchor(&full));
    text += &paragraphs(&comments.at(&path));
    for (at, method) in service.method.iter().enumerate() {
        let path = [&path[..], &[field_number::PARTS, index(at)]].concat();
        text += &format!("### {}\n\n", method.name());
        text += &anchor(&format!("{full}.{}", method.name()));
        text += &paragraphs(&comments.at(&path));
        text += &format!(
            "- Path: `/{full}/{}`\n- Takes: {}\n- Returns: {}\n- Kind: {}\n\n",
            method.name(),
            fields::named(method.input_type()),
            fields::named(method.output_type()),
            described_kind(method)
        );
    }
    text
}

/// Returns the kind, and whether the method changes nothing, or may be called again.
fn described_kind(method: &MethodDescriptorProto) -> String {
    let level = method.options.as_ref().map(prost_types::MethodOptions::idempotency_level);
    let effects = match level {
        Some(IdempotencyLevel::NoSideEffects) => ", no side effects",
        Some(IdempotencyLevel::Idempotent) => ", may be repeated",
        _ => "",
    };
    format!("{}{effects}", kind(method))
}

fn kind(method: &MethodDescriptorProto) -> &'static str {
    match (method.client_streaming(), method.server_streaming()) {
        (false, false) => "unary",
        (true, false) => "stream of requests",
        (false, true) => "stream of answers",
        (true, true) => "streams both ways",
    }
}

fn message(package: &str, message: &DescriptorProto, comments: &Comments, path: &[i32]) -> String {
    let full = format!("{package}.{}", message.name());
    let mut text = format!("### {}\n\n{}", message.name(), anchor(&full));
    text += &paragraphs(&comments.at(path));
    let rows = fields::rows(message, comments, path);
    if rows.is_empty() {
        text += "It has no fields.\n\n";
    }
    text + &table(["field", "no.", "type", "meaning"], &rows)
}

fn values(package: &str, of: &EnumDescriptorProto, comments: &Comments, path: &[i32]) -> String {
    let full = format!("{package}.{}", of.name());
    let rows: Vec<_> = of
        .value
        .iter()
        .enumerate()
        .map(|(at, value)| {
            let path = [path, &[field_number::PARTS, index(at)]].concat();
            [code(value.name()), value.number().to_string(), comments.at(&path)]
        })
        .collect();
    let head = format!("### {}\n\n{}{}", of.name(), anchor(&full), paragraphs(&comments.at(path)));
    head + &table(["value", "no.", "meaning"], &rows)
}
