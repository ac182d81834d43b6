use std::collections::HashMap;

use super::{Run, codes, records::acknowledged, relations, report::Checked};
use crate::history::{Call, Outcome};

/// C16: calls with one request id have the same request and one effect, and all answers are the same; after the first
/// answer, no later call is refused because of its request.
pub(super) fn check(run: &Run<'_>) -> Checked {
    let mut checked = Checked::new("C16 request ids");
    let mut requests: HashMap<&str, Vec<&Call>, ahash::RandomState> = HashMap::default();
    for call in run.calls() {
        if let Some(id) = &call.request_id {
            requests.entry(id).or_default().push(call);
        }
    }
    let mut repeated: Vec<_> = requests.into_iter().filter(|(_, calls)| calls.len() > 1).collect();
    repeated.sort_unstable_by_key(|(id, _)| *id);
    for (id, calls) in repeated {
        checked.look();
        request(id, &calls, &mut checked);
    }
    relations::requests(&run.relations, &mut checked);
    checked
}

fn request(id: &str, calls: &[&Call], checked: &mut Checked) {
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

/// Whether it was refused because of its request, and not because of the state of the cluster.
fn judged(call: &Call) -> bool {
    match &call.outcome {
        Outcome::Refused(code) => !codes::of_a_disturbance(code),
        Outcome::Gone => true,
        Outcome::Done { .. } | Outcome::Open(_) => false,
    }
}
