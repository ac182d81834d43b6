//! `kith call --list`: lists the methods.

use prost_reflect::MethodDescriptor;
use serde::Serialize;

use super::methods::{Methods, full_name};
use crate::output::Report;

/// A method that can be called.
#[derive(Serialize)]
pub(super) struct MethodLine {
    method: String,
    /// Says which side streams: one or many messages there, one or many back.
    kind: &'static str,
    request: String,
    answer: String,
}

/// Lists all methods.
pub(super) fn lines(methods: &Methods) -> Vec<MethodLine> {
    methods.all().iter().map(line).collect()
}

fn line(method: &MethodDescriptor) -> MethodLine {
    let kind = match (method.is_client_streaming(), method.is_server_streaming()) {
        (false, false) => "unary",
        (false, true) => "answers-stream",
        (true, false) => "requests-stream",
        (true, true) => "both-stream",
    };
    let name = |message: prost_reflect::MessageDescriptor| message.full_name().to_owned();
    MethodLine {
        method: full_name(method),
        kind,
        request: name(method.input()),
        answer: name(method.output()),
    }
}

impl Report for MethodLine {
    const COLUMNS: &'static [&'static str] = &["method", "kind", "request", "answer"];
}
