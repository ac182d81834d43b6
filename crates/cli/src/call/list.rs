//! `kith call --list`.

use prost_reflect::MethodDescriptor;
use serde::Serialize;

use super::methods::{Methods, full};
use crate::output::Report;

/// The methods.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct MethodList(Vec<MethodLine>);

#[derive(Serialize)]
struct MethodLine {
    method: String,
    /// What goes there and comes back, one or many.
    kind: &'static str,
    request: String,
    answer: String,
}

impl MethodList {
    /// All of them.
    pub(super) fn of(methods: &Methods) -> Self {
        Self(methods.all().iter().map(line).collect())
    }
}

fn line(method: &MethodDescriptor) -> MethodLine {
    let kind = match (method.is_client_streaming(), method.is_server_streaming()) {
        (false, false) => "unary",
        (false, true) => "answers-stream",
        (true, false) => "requests-stream",
        (true, true) => "both-stream",
    };
    let name = |message: prost_reflect::MessageDescriptor| message.full_name().to_owned();
    MethodLine { method: full(method), kind, request: name(method.input()), answer: name(method.output()) }
}

impl Report for MethodList {
    fn header(&self) -> Vec<&'static str> {
        vec!["method", "kind", "request", "answer"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |line: &MethodLine| {
            vec![line.method.clone(), line.kind.to_owned(), line.request.clone(), line.answer.clone()]
        };
        self.0.iter().map(row).collect()
    }
}
