//! C17: error codes.

use super::{Run, faults::Faults, messages, relations, report::CheckResult};
use crate::history::{Call, Outcome, UserRequest};

/// Codes that any call may return during a fault or shortly after it, and at no other time.
const OUTAGE_CODES: [&str; 4] = ["RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"];

/// C17: every answer is possible for its call, and its code is allowed at that time. `INTERNAL` and `UNKNOWN`
/// are never allowed.
pub(super) fn check(run: &Run<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C17 codes");
    for call in run.calls() {
        checked.count_judged();
        let wrong = match &call.outcome {
            Outcome::Refused(code) if refusals(&call.what).contains(&code.as_str()) => None,
            Outcome::Refused(code) | Outcome::Open(code) => {
                wrong_code(&run.faults, code, [call.began, call.ended])
            }
            Outcome::Gone if matches!(call.what, UserRequest::Create { .. }) => {
                Some("is no answer to a creation")
            }
            Outcome::Done { .. } if call.what == UserRequest::Delete => Some("is no answer to a deletion"),
            Outcome::Done { .. } | Outcome::Gone => None,
        };
        if let Some(wrong) = wrong {
            checked.violation(|| violation(call, wrong));
        }
    }
    relations::codes(&run.relations, &run.faults, &mut checked);
    messages::codes(&run.messages, &run.faults, &mut checked);
    checked
}

/// Whether the code reports the cluster's state and not a fault in the request.
pub(crate) fn is_outage_code(code: &str) -> bool {
    OUTAGE_CODES.contains(&code)
}

/// The codes with which such a call may be refused at any time.
const fn refusals(what: &UserRequest) -> &'static [&'static str] {
    match what {
        UserRequest::Read(_) => &["NOT_FOUND"],
        UserRequest::Create { .. } => &["ALREADY_EXISTS"],
        UserRequest::Update { .. } | UserRequest::Delete => &["NOT_FOUND", "ABORTED"],
    }
}

/// Why a code is not allowed for a call. `call`: when it began and ended. `None`: a fault at that time
/// explains the code.
pub(super) fn wrong_code(faults: &Faults<'_>, code: &str, call: [u64; 2]) -> Option<&'static str> {
    match is_outage_code(code) {
        false => Some("is never allowed"),
        true if faults.disturbed(call) => None,
        true => Some("is not allowed without a fault"),
    }
}

fn violation(call: &Call, wrong: &str) -> String {
    let Call { key, client, began, what, outcome, .. } = call;
    format!("{key}: client {client} at {began} ns: {outcome:?} of {what:?} {wrong}")
}
