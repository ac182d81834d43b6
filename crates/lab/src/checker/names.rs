//! C8: users' names are unique.

use std::collections::HashMap;

use super::{Run, records::Record, report::CheckResult};
use crate::history::{Call, Outcome, UserRequest};

const TAKEN: &str = "ALREADY_EXISTS";

/// C8: no two records with the same name exist at the same time, and a name is refused as taken only if a
/// creation may have taken it. So exactly one creation wins a race for a free name.
///
/// A record certainly exists from the first answer that shows it to the first request to delete it. Two
/// records whose periods do not overlap may have existed in sequence.
pub(super) fn check(run: &Run<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C8 unique names");
    let mut owners: Vec<Owner<'_>> = run.records.iter().filter_map(owner).collect();
    owners.sort_unstable();
    for same in owners.chunk_by(|a, b| a.name == b.name) {
        one_at_a_time(same, &mut checked);
    }
    refused_only_if_taken(run, &mut checked);
    checked
}

/// A record with a name, and when it certainly existed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Owner<'a> {
    name: &'a str,
    from: u64,
    until: u64,
    key: &'a str,
}

fn owner<'a>(record: &Record<'a>) -> Option<Owner<'a>> {
    let done = |call: &&&Call| matches!(call.outcome, Outcome::Done { .. });
    let open = |call: &&&Call| matches!(call.outcome, Outcome::Open(_));
    let creations = || record.calls.iter().filter(|call| matches!(call.what, UserRequest::Create { .. }));
    let creation = creations().find(done).or_else(|| creations().find(open))?;
    let UserRequest::Create { name, .. } = &creation.what else { return None };
    let until = record.may_be_deleted().unwrap_or(u64::MAX);
    Some(Owner { name, from: record.known?, until, key: record.key })
}

/// Checks the owners that one name had, which are in the order of time.
fn one_at_a_time(owners: &[Owner<'_>], checked: &mut CheckResult) {
    let mut last: Option<&Owner<'_>> = None;
    for owner in owners.iter().filter(|owner| owner.from < owner.until) {
        checked.count_judged();
        if let Some(last) = last.filter(|last| owner.from < last.until) {
            checked.violation(|| {
                let Owner { name, from, key, .. } = owner;
                format!("{name} belongs to {} and, from {from} ns on, also to {key}", last.key)
            });
        }
        last = last.filter(|last| owner.until <= last.until).or(Some(owner));
    }
}

fn refused_only_if_taken(run: &Run<'_>, checked: &mut CheckResult) {
    let mut first: HashMap<&str, u64, ahash::RandomState> = HashMap::default();
    for (name, call) in creations(run) {
        if !matches!(call.outcome, Outcome::Refused(_)) {
            let began = first.entry(name).or_insert(call.began);
            *began = call.began.min(*began);
        }
    }
    for (name, call) in creations(run) {
        let Outcome::Refused(code) = &call.outcome else { continue };
        if code != TAKEN {
            continue;
        }
        checked.count_judged();
        if first.get(name).is_none_or(|began| *began > call.ended) {
            checked.violation(|| {
                format!("{name} was refused to client {} at {} ns and was free", call.client, call.ended)
            });
        }
    }
}

fn creations<'a>(run: &Run<'a>) -> impl Iterator<Item = (&'a str, &'a Call)> {
    run.calls().filter_map(|call| match &call.what {
        UserRequest::Create { name, .. } => Some((name.as_str(), call)),
        UserRequest::Read(_) | UserRequest::Update { .. } | UserRequest::Delete => None,
    })
}
