//! The contract's JSON form as OpenAPI 3.1, written from the descriptors that also transcode the calls.
//!
//! Every unary method and health are paths. Streams have no JSON form and are left out.

mod errors;
mod operations;
mod schemas;

use std::collections::BTreeMap;

use prost_reflect::{DescriptorError, DescriptorPool, FileDescriptor};
use serde_json::{Value, json};

use self::schemas::OpenApiSchemas;
use crate::descriptors::{self, comments::Comments};

/// The default for `listen`.
const ORIGIN: &str = "http://127.0.0.1:7600";
const DESCRIPTION: &str = "\
Calls as JSON over HTTP: the unary form of the Connect protocol. `docs/reference/errors.md` explains the reasons of errors, `docs/reference/authorization.md` \
who may call what.

Fields have lowerCamel names. Integers of 64 bits are strings. A field that has the zero of its type is left out of answers. Requests may \
also have the names of the contract (`user_id`), integers as numbers or strings, and null for an absent field. A field that is not known, or \
is given twice, is an error.

Metadata that a method sends behind its answer comes as headers with `trailer-` before their name, such as `trailer-kith-tier`. Methods that \
stream have no JSON form.";

/// Returns the document, as text with a line feed at its end. Each program version always writes the same
/// bytes. Takes tens of milliseconds and some MB: keep it, or let it be made off the runtime.
///
/// # Errors
/// If the descriptors that are built into the program cannot be read.
pub fn document() -> Result<String, DescriptorError> {
    let pool = descriptors::pool()?;
    let comments = ContractComments::of(&pool);
    let mut schemas = OpenApiSchemas::new(&comments);
    let paths = operations::paths(&pool, &comments, &mut schemas);
    let mut schemas = schemas.into_map();
    schemas.extend(errors::schemas());
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Kith",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "Apache 2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{
            "url": "{origin}",
            "description": "A node.",
            "variables": {
                "origin": { "default": ORIGIN, "description": "Scheme, host and port of `listen`." },
            },
        }],
        "tags": tags(&pool, &comments),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": { "Error": errors::response() },
            "parameters": operations::parameters(),
            "securitySchemes": { "key": operations::security_scheme() },
        },
    });
    // It has only texts, numbers and objects with names: writing cannot fail.
    Ok(format!("{document:#}\n"))
}

fn tags(pool: &DescriptorPool, comments: &ContractComments) -> Vec<Value> {
    let services = operations::services(pool);
    let tag = |service: &prost_reflect::ServiceDescriptor| {
        let text = comments.at(&service.parent_file(), service.path());
        described(json!({ "name": service.name() }), &text)
    };
    services.iter().map(tag).collect()
}

/// Every file's comments.
struct ContractComments(BTreeMap<String, Comments>);

impl ContractComments {
    fn of(pool: &DescriptorPool) -> Self {
        let files = pool.file_descriptor_protos();
        Self(files.map(|file| (file.name().to_owned(), Comments::of(file))).collect())
    }

    /// The comment on the declaration at this path.
    fn at(&self, file: &FileDescriptor, path: &[i32]) -> String {
        self.0.get(file.name()).map(|comments| comments.at(path)).unwrap_or_default()
    }
}

/// A document object with its description, if any.
fn described(mut object: Value, text: &str) -> Value {
    if !text.is_empty() {
        object["description"] = text.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> Value {
        serde_json::from_str(&document().unwrap()).unwrap()
    }

    #[test]
    fn every_method_with_a_json_form_is_a_path() {
        let pool = descriptors::pool().unwrap();
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let (streams, unary): (Vec<_>, Vec<_>) =
            methods.partition(|method| method.is_client_streaming() || method.is_server_streaming());
        let document = read();
        let path = |method: &prost_reflect::MethodDescriptor| {
            document["paths"]
                .get(format!("/{}/{}", method.parent_service().full_name(), method.name()))
                .cloned()
        };
        for method in &unary {
            let operation = path(method).unwrap_or_else(|| panic!("{}", method.full_name()));
            let answer = &operation["post"]["responses"]["200"]["content"]["application/json"]["schema"];
            assert_eq!(answer["$ref"], format!("#/components/schemas/{}", method.output().full_name()));
        }
        assert!(unary.len() > 100 && streams.len() > 10);
        assert!(streams.iter().all(|method| path(method).is_none()));
        assert_eq!(document["paths"].as_object().unwrap().len(), unary.len());
    }

    #[test]
    fn operation_ids_are_unique() {
        let document = read();
        let paths = document["paths"].as_object().unwrap();
        let ids: std::collections::BTreeSet<_> =
            paths.values().map(|path| path["post"]["operationId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), paths.len());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str));
                    members.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let (document, mut found) = (read(), Vec::new());
        references(&document, &mut found);
        assert!(found.len() > 500, "{}", found.len());
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn scopes_and_acting_users_match_the_contract() {
        let document = read();
        let operation = |path: &str| document["paths"][path]["post"].clone();
        let get = operation("/kith.user.v1.UserService/GetUser");
        assert_eq!(get["security"], json!([{}, { "key": ["user:read"] }]));
        assert!(get["parameters"].to_string().contains("ActingUser"));
        let create = operation("/kith.user.v1.UserService/CreateUser");
        assert!(!create["parameters"].to_string().contains("ActingUser"), "it is for services");
        assert_eq!(operation("/grpc.health.v1.Health/Check")["security"], json!([]));
    }
}
