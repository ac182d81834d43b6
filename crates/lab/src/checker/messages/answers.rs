//! Checks codes, and counts calls.

use super::Messages;
use crate::{
    checker::{CallTraits, codes::wrong_code, faults::Faults, report::CheckResult},
    history::{MessageCall, MessageOutcome, MessageRequest, SendOutcome},
};

/// C17 for messages: all clients' requests are valid, so every other answer must be due to a fault.
pub(in crate::checker) fn codes(messages: &Messages<'_>, faults: &Faults<'_>, checked: &mut CheckResult) {
    for call in &messages.calls {
        checked.count_judged();
        for code in failures(call) {
            let Some(wrong) = wrong_code(faults, code, [call.began, call.ended]) else { continue };
            checked.violation(|| {
                let MessageCall { client, node, began, request, .. } = call;
                format!("client {client} at {began} ns: {code} of node {node} for {request:?} {wrong}")
            });
        }
    }
}

impl Messages<'_> {
    /// Each call, for the report's totals.
    pub(in crate::checker) fn kinds(&self) -> impl Iterator<Item = CallTraits> {
        self.calls.iter().map(|call| CallTraits {
            reads: matches!(call.request, MessageRequest::Read { .. }),
            refused: matches!(call.outcome, MessageOutcome::Refused(_)),
            open: matches!(call.outcome, MessageOutcome::Open(_)),
        })
    }
}

/// The codes for messages that were not sent, or may not have been.
fn failures(call: &MessageCall) -> Vec<&str> {
    match &call.outcome {
        MessageOutcome::Refused(code) | MessageOutcome::Open(code) => vec![code],
        MessageOutcome::Sent(results) => results.iter().filter_map(failure).collect(),
        MessageOutcome::Read { .. } | MessageOutcome::Marked(_) => Vec::new(),
    }
}

fn failure(result: &SendOutcome) -> Option<&str> {
    match result {
        SendOutcome::Refused(code) | SendOutcome::Open(code) => Some(code),
        SendOutcome::At(_) => None,
    }
}
