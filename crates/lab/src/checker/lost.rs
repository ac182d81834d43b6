//! C5: no acknowledged write is lost.

use super::{
    Run,
    records::{FinalState, Rank, Record},
    relations,
    report::CheckResult,
};
use crate::history::{CopyPlace, Event, Outcome, RecordEnd, UserRequest};

/// C5: at the end the store has every acknowledged write, or a later version; acknowledged deletions are in
/// effect; and every stored value was written. Checks nothing if the history does not contain the final state
/// of the store.
pub(super) fn check(run: &Run<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C5 no lost write");
    let of_store = |event: &Event| matches!(event, Event::Held(RecordEnd { place: CopyPlace::Store, .. }));
    if run.events.iter().any(of_store) {
        for record in run.records.iter() {
            writes(record, &mut checked);
            deletions(record, &mut checked);
            end(record, &mut checked);
        }
    }
    relations::lost(&run.relations, &mut checked);
    checked
}

fn writes(record: &Record<'_>, checked: &mut CheckResult) {
    for write in record.writes.iter().filter(|write| write.acked.is_some()) {
        let Some(version) = write.version else { continue };
        checked.count_judged();
        let kept = match record.end() {
            None => false,
            Some(FinalState::Gone) => record.may_be_deleted().is_some(),
            Some(FinalState::Is { version: end, value }) => {
                end > version || end == version && value == write.value
            }
        };
        if !kept {
            checked.violation(|| {
                let (key, value) = (record.key, write.value);
                format!(
                    "{key}: value {value} of version {version} is lost, the store has {}",
                    record.end_in_words()
                )
            });
        }
    }
}

fn deletions(record: &Record<'_>, checked: &mut CheckResult) {
    for call in
        record.calls.iter().filter(|call| call.what == UserRequest::Delete && call.outcome == Outcome::Gone)
    {
        checked.count_judged();
        if record.rank(call) == Some(Rank::DELETED) && record.end() != Some(FinalState::Gone) {
            checked.violation(|| {
                let (key, ended) = (record.key, call.ended);
                format!("{key}: the deletion of {ended} ns is lost, the store has {}", record.end_in_words())
            });
        }
    }
}

fn end(record: &Record<'_>, checked: &mut CheckResult) {
    let Some(FinalState::Is { version, value }) = record.end() else { return };
    if !record.written(value).iter().any(|write| write.version == Some(version)) {
        checked.violation(|| {
            format!("{}: the store has {}, which no call wrote", record.key, record.end_in_words())
        });
    }
}
