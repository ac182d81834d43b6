//! C6: every value that was read was written.

use super::{
    Run,
    records::{Record, found, writes_value},
    relations,
    report::CheckResult,
};
use crate::history::Outcome;

/// C6: every value that a read found was written to the record, by a write that was acknowledged or has an
/// open outcome. It has the version of the acknowledgement, or else always the version with which it was
/// first found.
pub(super) fn check(run: &Run<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C6 no phantom");
    for record in run.records.iter() {
        for call in &record.calls {
            let Some((value, version)) = found(call) else { continue };
            checked.count_judged();
            if !record.written(value).iter().any(|write| write.version == Some(version)) {
                checked.violation(|| {
                    let (key, began, client) = (record.key, call.began, call.client);
                    let why = why(record, value);
                    format!(
                        "{key}: client {client} read value {value} of version {version} at {began} ns, {why}"
                    )
                });
            }
        }
    }
    relations::phantoms(&run.relations, &mut checked);
    checked
}

fn why(record: &Record<'_>, value: u64) -> String {
    if let Some(version) = record.written(value).iter().find_map(|write| write.version) {
        return format!("which is version {version}");
    }
    let refused = record
        .calls
        .iter()
        .any(|call| writes_value(&call.what) == Some(value) && matches!(call.outcome, Outcome::Refused(_)));
    if refused { "whose write was refused".to_owned() } else { "which no call wrote".to_owned() }
}
