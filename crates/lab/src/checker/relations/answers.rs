//! Checks request ids and codes, for relations.

use super::{Relations, writes::changes};
use crate::{
    checker::{
        CallTraits,
        codes::{is_outage_code, wrong_code},
        faults::Faults,
        report::CheckResult,
        requests::repeated_requests,
    },
    history::{RelationCall, RelationOutcome, RelationRequest},
};

/// C16 for relations.
pub(in crate::checker) fn requests(relations: &Relations<'_>, checked: &mut CheckResult) {
    for (id, calls) in repeated_requests(relations.calls(), |call| call.request_id.as_deref()) {
        checked.count_judged();
        request(id, &calls, checked);
    }
}

fn request(id: &str, calls: &[&RelationCall], checked: &mut CheckResult) {
    if calls.iter().any(|call| call.what != calls[0].what) {
        checked.violation(|| format!("{id} was used for different calls"));
        return;
    }
    let done = |call: &&&RelationCall| {
        !matches!(call.outcome, RelationOutcome::Refused(_) | RelationOutcome::Open(_))
    };
    let Some(first) = calls.iter().filter(done).min_by_key(|call| call.ended) else { return };
    for call in calls {
        let differs = match (&call.outcome, &first.outcome) {
            (RelationOutcome::Open(_), _) => false,
            (RelationOutcome::Refused(code), _) => call.began > first.ended && !is_outage_code(code),
            // Only the call that ended a follow may know that its block did.
            (RelationOutcome::Set(one, _), RelationOutcome::Set(other, _)) => one != other,
            (one, other) => one != other,
        };
        if differs {
            checked.violation(|| {
                format!("{id} was answered with {:?}, and with {:?}", first.outcome, call.outcome)
            });
        }
    }
}

/// C17 for relations.
pub(in crate::checker) fn codes(relations: &Relations<'_>, faults: &Faults<'_>, checked: &mut CheckResult) {
    for call in relations.calls() {
        checked.count_judged();
        let (RelationOutcome::Refused(code) | RelationOutcome::Open(code)) = &call.outcome else { continue };
        if matches!(call.outcome, RelationOutcome::Refused(_)) && Some(code.as_str()) == refusal(&call.what) {
            continue;
        }
        let Some(wrong) = wrong_code(faults, code, [call.began, call.ended]) else { continue };
        checked.violation(|| {
            let RelationCall { client, began, what, outcome, .. } = call;
            format!("client {client} at {began} ns: {outcome:?} of {what:?} {wrong}")
        });
    }
}

impl Relations<'_> {
    /// Each call, for the report's totals.
    pub(in crate::checker) fn kinds(&self) -> impl Iterator<Item = CallTraits> {
        self.calls().map(|call| CallTraits {
            reads: !changes(&call.what),
            refused: matches!(call.outcome, RelationOutcome::Refused(_)),
            open: matches!(call.outcome, RelationOutcome::Open(_)),
        })
    }
}

/// The code with which such a call may always be refused.
const fn refusal(what: &RelationRequest) -> Option<&'static str> {
    match what {
        RelationRequest::Follow(_) => Some("FAILED_PRECONDITION"),
        RelationRequest::Unfollow(_) => Some("NOT_FOUND"),
        RelationRequest::Set(..)
        | RelationRequest::Get(..)
        | RelationRequest::Check(..)
        | RelationRequest::List(..)
        | RelationRequest::Count(_) => None,
    }
}
