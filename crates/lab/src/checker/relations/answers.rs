//! The checks of request ids and codes, of relations.

use super::{Relations, writes::changes};
use crate::{
    checker::{
        CallTraits,
        codes::{of_a_disturbance, wrong_code},
        faults::Faults,
        report::Checked,
        requests::repeated,
    },
    history::{About, Relates, RelationCall},
};

/// C16, of relations.
pub(in crate::checker) fn requests(relations: &Relations<'_>, checked: &mut Checked) {
    for (id, calls) in repeated(relations.calls(), |call| call.request_id.as_deref()) {
        checked.look();
        request(id, &calls, checked);
    }
}

fn request(id: &str, calls: &[&RelationCall], checked: &mut Checked) {
    if calls.iter().any(|call| call.what != calls[0].what) {
        checked.violation(|| format!("{id} was used for different calls"));
        return;
    }
    let done = |call: &&&RelationCall| !matches!(call.outcome, Relates::Refused(_) | Relates::Open(_));
    let Some(first) = calls.iter().filter(done).min_by_key(|call| call.ended) else { return };
    for call in calls {
        let differs = match (&call.outcome, &first.outcome) {
            (Relates::Open(_), _) => false,
            (Relates::Refused(code), _) => call.began > first.ended && !of_a_disturbance(code),
            // Only the call that ended a follow may know that its block did.
            (Relates::Set(one, _), Relates::Set(other, _)) => one != other,
            (one, other) => one != other,
        };
        if differs {
            checked.violation(|| {
                format!("{id} was answered with {:?}, and with {:?}", first.outcome, call.outcome)
            });
        }
    }
}

/// C17, of relations.
pub(in crate::checker) fn codes(relations: &Relations<'_>, faults: &Faults<'_>, checked: &mut Checked) {
    for call in relations.calls() {
        checked.look();
        let (Relates::Refused(code) | Relates::Open(code)) = &call.outcome else { continue };
        if matches!(call.outcome, Relates::Refused(_)) && Some(code.as_str()) == refusal(&call.what) {
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
    /// Each call, for the totals of the report.
    pub(in crate::checker) fn kinds(&self) -> impl Iterator<Item = CallTraits> {
        self.calls().map(|call| CallTraits {
            reads: !changes(&call.what),
            refused: matches!(call.outcome, Relates::Refused(_)),
            open: matches!(call.outcome, Relates::Open(_)),
        })
    }
}

/// The code with which such a call may always be refused.
const fn refusal(what: &About) -> Option<&'static str> {
    match what {
        About::Follow(_) => Some("FAILED_PRECONDITION"),
        About::Unfollow(_) => Some("NOT_FOUND"),
        About::Set(..) | About::Get(..) | About::Check(..) | About::List(..) | About::Count(_) => None,
    }
}
