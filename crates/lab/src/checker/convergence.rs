//! C7: all copies agree with the store at the end.

use super::{
    Run,
    records::{FinalState, Record},
    report::CheckResult,
};
use crate::history::{CopyPlace, RecordEnd};

/// C7: at the end Redis and every node's memory have the same state for each record as the store, or no copy.
/// A copy that shows only its version is compared by version.
pub(super) fn check(run: &Run<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C7 convergence");
    for record in run.records.iter() {
        copies(record, &mut checked);
    }
    checked
}

fn copies(record: &Record<'_>, checked: &mut CheckResult) {
    for held in record.held.iter().filter(|held| held.place != CopyPlace::Store) {
        let (version, copy) = (version_alone(held), FinalState::of(held));
        let same = match (version, copy) {
            (Some(version), _) => {
                matches!(record.end(), Some(FinalState::Is { version: end, .. }) if end == version)
            }
            (None, Some(copy)) => record.end() == Some(copy),
            (None, None) => continue,
        };
        checked.count_judged();
        if !same {
            checked.violation(|| {
                let store = record.end_in_words();
                let copy = copy.map(|copy| copy.to_string());
                let copy = copy.unwrap_or_else(|| format!("version {}", version.unwrap_or_default()));
                format!("{}: {} has {copy}, the store has {store}", record.key, place_name(held.place))
            });
        }
    }
}

/// The version in a copy that does not show its value.
const fn version_alone(held: &RecordEnd) -> Option<u64> {
    match held.state {
        Some((version, None)) if !held.gone => Some(version),
        _ => None,
    }
}

fn place_name(place: CopyPlace) -> String {
    match place {
        CopyPlace::Store => "the store".to_owned(),
        CopyPlace::Redis => "Redis".to_owned(),
        CopyPlace::Memory(node) => format!("the memory of node {node}"),
    }
}
