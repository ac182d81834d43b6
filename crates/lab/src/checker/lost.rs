//! C5: no acknowledged write is lost.

use super::{
    Run,
    records::{End, Rank, Record},
    relations,
    report::Checked,
};
use crate::history::{Event, Held, Outcome, Place, What};

/// C5: at the end the store has every acknowledged write, or a later version; acknowledged deletions are in effect; and
/// every stored value was written. Checks nothing if the history does not contain the final state of the store.
pub(super) fn check(run: &Run<'_>) -> Checked {
    let mut checked = Checked::new("C5 no lost write");
    let of_store = |event: &Event| matches!(event, Event::Held(Held { place: Place::Store, .. }));
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

fn writes(record: &Record<'_>, checked: &mut Checked) {
    for write in record.writes.iter().filter(|write| write.acked.is_some()) {
        let Some(version) = write.version else { continue };
        checked.look();
        let kept = match record.end() {
            None => false,
            Some(End::Gone) => record.may_be_deleted().is_some(),
            Some(End::Is { version: end, value }) => end > version || end == version && value == write.value,
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

fn deletions(record: &Record<'_>, checked: &mut Checked) {
    for call in record.calls.iter().filter(|call| call.what == What::Delete && call.outcome == Outcome::Gone)
    {
        checked.look();
        if record.rank(call) == Some(Rank::DELETED) && record.end() != Some(End::Gone) {
            checked.violation(|| {
                let (key, ended) = (record.key, call.ended);
                format!("{key}: the deletion of {ended} ns is lost, the store has {}", record.end_in_words())
            });
        }
    }
}

fn end(record: &Record<'_>, checked: &mut Checked) {
    let Some(End::Is { version, value }) = record.end() else { return };
    if !record.written(value).iter().any(|write| write.version == Some(version)) {
        checked.violation(|| {
            format!("{}: the store has {}, which no call wrote", record.key, record.end_in_words())
        });
    }
}
