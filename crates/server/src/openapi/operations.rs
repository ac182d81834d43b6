//! Paths: one POST for each unary method.

use std::collections::BTreeMap;

use kith_proto::r#type::v1::Users;
use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use serde_json::{Value, json};

use super::{ContractComments, described, schemas::OpenApiSchemas};
use crate::{auth::Rule, descriptors};

/// The services that have a unary method.
pub(super) fn services(pool: &DescriptorPool) -> Vec<ServiceDescriptor> {
    pool.services().filter(|service| service.methods().any(|method| is_unary(&method))).collect()
}

/// The operations by path. Adds to `schemas` what their messages need.
pub(super) fn paths(
    pool: &DescriptorPool,
    comments: &ContractComments,
    schemas: &mut OpenApiSchemas<'_>,
) -> BTreeMap<String, Value> {
    let mut paths = BTreeMap::new();
    for service in services(pool) {
        for method in service.methods().filter(is_unary) {
            let path = format!("/{}/{}", service.full_name(), method.name());
            paths.insert(path, json!({ "post": operation(&method, comments, schemas) }));
        }
    }
    paths
}

/// Headers that calls may have.
pub(super) fn parameters() -> Value {
    json!({
        "ActingUser": {
            "name": "kith-acting-user",
            "in": "header",
            "description": "The user for whom the call is made. Absent: the caller calls for itself.",
            "schema": { "type": "string", "pattern": "^[0-9]+$" },
        },
        "Timeout": {
            "name": "connect-timeout-ms",
            "in": "header",
            "description": "How long the call may take, in milliseconds. Absent: the default of the node.",
            "schema": { "type": "string", "pattern": "^[0-9]{1,10}$" },
        },
    })
}

/// The scheme for callers' keys.
pub(super) fn security_scheme() -> Value {
    json!({
        "type": "http",
        "scheme": "bearer",
        "description": "The key of a caller. A node without callers needs none. The roles of an operation are the scopes that the caller \
                        needs.",
    })
}

fn is_unary(method: &MethodDescriptor) -> bool {
    !method.is_client_streaming() && !method.is_server_streaming()
}

fn operation(
    method: &MethodDescriptor,
    comments: &ContractComments,
    schemas: &mut OpenApiSchemas<'_>,
) -> Value {
    let service = method.parent_service();
    let rule =
        descriptors::access(method).and_then(|access| Rule::of(service.full_name(), method.name(), &access));
    let object = json!({
        "operationId": format!("{}_{}", service.name(), method.name()),
        "tags": [service.name()],
        "parameters": headers(rule),
        "security": security(rule),
        "requestBody": { "required": true, "content": content(&schemas.request(&method.input())) },
        "responses": {
            "200": { "description": "The answer.", "content": content(&schemas.reference(&method.output())) },
            "default": { "$ref": "#/components/responses/Error" },
        },
    });
    described(object, &comments.at(&service.parent_file(), method.path()))
}

pub(super) fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn headers(rule: Option<Rule>) -> Vec<Value> {
    let for_users = matches!(rule, Some(Rule::Contract(rule)) if rule.users != Users::None);
    let names = for_users.then_some("ActingUser").into_iter().chain(["Timeout"]);
    names.map(|name| json!({ "$ref": format!("#/components/parameters/{name}") })).collect()
}

/// No key on a node without callers, or the key of a caller with the scope. Health needs none.
fn security(rule: Option<Rule>) -> Value {
    match rule {
        Some(Rule::Contract(rule)) => json!([{}, { "key": [rule.scope.text()] }]),
        Some(Rule::Open | Rule::AnyCaller) | None => json!([]),
    }
}
