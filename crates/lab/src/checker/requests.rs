//! C16: requests that were sent more than once.

use std::collections::BTreeMap;

use super::{Run, codes, records::acknowledged, relations, report::CheckResult};
use crate::history::{Call, Outcome};

/// C16: calls with the same request id are the same call, have one effect, and get the same answer. After the
/// first answer, no call is refused because of its request.
pub(super) fn check(run: &Run<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C16 request ids");
    for (id, calls) in repeated_requests(run.calls(), |call| call.request_id.as_deref()) {
        checked.count_judged();
        request(id, &calls, &mut checked);
    }
    relations::requests(&run.relations, &mut checked);
    checked
}

/// The requests that were sent more than once, ordered by id, each with its calls.
pub(crate) fn repeated_requests<'a, C>(
    calls: impl Iterator<Item = &'a C>,
    id: fn(&'a C) -> Option<&'a str>,
) -> BTreeMap<&'a str, Vec<&'a C>> {
    let mut requests: BTreeMap<&str, Vec<&C>> = BTreeMap::new();
    for (call, id) in calls.filter_map(|call| Some((call, id(call)?))) {
        requests.entry(id).or_default().push(call);
    }
    requests.retain(|_, calls| calls.len() > 1);
    requests
}

fn request(id: &str, calls: &[&Call], checked: &mut CheckResult) {
    if calls.iter().any(|call| call.what != calls[0].what) {
        checked.violation(|| format!("{id} was used for different calls"));
        return;
    }
    let Some(first) = calls.iter().filter(|call| acknowledged(call)).min_by_key(|call| call.ended) else {
        return;
    };
    for call in calls {
        let differs = if acknowledged(call) {
            call.outcome != first.outcome
        } else {
            call.began > first.ended && judged(call)
        };
        if differs {
            checked.violation(|| {
                format!("{id} was answered with {:?}, and with {:?}", first.outcome, call.outcome)
            });
        }
    }
}

/// Whether the call was refused because of its request, and not because of the cluster's state.
fn judged(call: &Call) -> bool {
    match &call.outcome {
        Outcome::Refused(code) => !codes::is_outage_code(code),
        Outcome::Gone => true,
        Outcome::Done { .. } | Outcome::Open(_) => false,
    }
}
