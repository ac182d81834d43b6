//! Read marks: one `update` command for all marks, each statement an upsert.
//!
//! A statement matches the dialog in the state in which the mark can be written without a read: no unread
//! ranges, nothing is skipped, and `read` rises (see [`ReadMark::raise`](kith_store::ReadMark::raise)), in
//! the version that the caller expects. If there is no dialog, the statement makes it. If there is a dialog
//! in another state, the index of ids refuses the upsert, and the reply says which statements were refused.
//! Their dialogs are read. Dialogs that the marks change are written by statements that match the read state,
//! repeated until none is refused.

use std::{collections::BTreeMap, sync::Arc};

use kith_store::{
    Dialog, DialogKey, DialogMark, MARK_RANGES_MAX, MarkBase, MarkKind, Outcome, ReadMark, ReadRanges,
    StoreError, Timestamp, millis,
};
use mongodb::bson::{Document, doc};

use super::row::{DialogUpdate, id, packed};
use crate::mongo::{
    command::{durable_document, run_updates},
    database::Mongo,
    error::{out_of_time, write_failed},
    write::Retries,
};

/// The results of the marks.
type Results = Vec<Result<MarkBase, StoreError>>;

impl Mongo {
    /// See [`DialogStore::mark_dialogs`](kith_store::DialogStore::mark_dialogs).
    pub(super) async fn make_marks(
        &self,
        marks: &[DialogMark],
        now: Timestamp,
    ) -> Result<Results, StoreError> {
        let mut results: Results = marks.iter().map(|mark| Ok(base_of_raise(mark))).collect();
        let statement = |mark: &DialogMark| raise_statement(mark, now);
        let (blind, mut left): (Vec<usize>, Vec<usize>) =
            (0..marks.len()).partition(|at| ReadRanges::default().mark(&marks[*at].mark).is_ok());
        let statements: Vec<Document> = blind.iter().filter_map(|at| statement(&marks[*at])).collect();
        let refused = self.update_dialogs(statements).await?;
        left.extend(refused.into_iter().filter_map(|at| blind.get(at)));
        left.sort_unstable();
        let mut retries = Retries::within(self.options.retry);
        while !left.is_empty() {
            left = self.decide_marks(marks, &left, &mut results, now).await.map_err(after_partial_write)?;
            if left.is_empty() {
                break;
            }
            if !retries.again().await {
                return Err(out_of_time(Outcome::Unknown));
            }
        }
        Ok(results)
    }

    /// Sends statements in one command. Returns which of them the index of ids refused.
    pub(super) async fn update_dialogs(&self, statements: Vec<Document>) -> Result<Vec<usize>, StoreError> {
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        let command = doc! {
            "update": self.dialogs.name(),
            "updates": statements,
            "ordered": false,
            "writeConcern": durable_document(self.options.write_majority),
            "maxTimeMS": millis(self.options.command),
        };
        run_updates(&self.database, command).await.map_err(write_failed)
    }

    /// Reads the dialogs of these marks, and writes the marked dialogs. Returns the marks of dialogs that
    /// others have changed in between.
    async fn decide_marks(
        &self,
        marks: &[DialogMark],
        which: &[usize],
        results: &mut Results,
        now: Timestamp,
    ) -> Result<Vec<usize>, StoreError> {
        let mut of_key: BTreeMap<DialogKey, Vec<usize>> = BTreeMap::new();
        for at in which {
            of_key.entry(marks[*at].key).or_default().push(*at);
        }
        let keys: Vec<DialogKey> = of_key.keys().copied().collect();
        let mut stored: BTreeMap<_, _> = self.read_dialogs(&keys).await?.into_iter().collect();
        let (mut statements, mut written) = (Vec::new(), Vec::new());
        for (key, of_dialog) in of_key {
            let before = match stored.remove(&key).unwrap_or_else(|| Ok(Dialog::absent(key))) {
                Ok(dialog) => dialog,
                Err(error) => {
                    of_dialog.into_iter().for_each(|at| results[at] = Err(error.clone()));
                    continue;
                }
            };
            let mut after = before.clone();
            for at in &of_dialog {
                results[*at] = mark_one(&mut after, &marks[*at].mark, now);
            }
            if after != before {
                statements.push(replace_statement(&before, &after, now));
                written.push(of_dialog);
            }
        }
        let refused = self.update_dialogs(statements).await?;
        Ok(refused.into_iter().filter_map(|at| written.get(at)).flatten().copied().collect())
    }
}

/// Whether the mark exceeds the limit of ranges.
pub(super) fn has_too_many_ranges(mark: &DialogMark) -> bool {
    matches!(&mark.mark.kind, MarkKind::Ranges(ranges) if ranges.len() > MARK_RANGES_MAX)
}

/// Marks a dialog that was read. Its settings may change before it is written.
fn mark_one(dialog: &mut Dialog, mark: &ReadMark, now: Timestamp) -> Result<MarkBase, StoreError> {
    if let Some(marked) = dialog.marked(mark, now)? {
        *dialog = marked;
    }
    Ok(MarkBase::Other)
}

/// The result of a [`raise_statement`] that is not refused.
const fn base_of_raise(mark: &DialogMark) -> MarkBase {
    if mark.expected.is_some() { MarkBase::Expected } else { MarkBase::Other }
}

/// Raises the read mark in a dialog without unread ranges in which the mark skips nothing, or makes the
/// dialog.
fn raise_statement(mark: &DialogMark, now: Timestamp) -> Option<Document> {
    let made = ReadRanges::default().mark(&mark.mark).ok()?;
    let raise = mark.mark.raise();
    let mut update = DialogUpdate::new(now);
    update.max.insert("read", raise.to);
    update.made.insert("sv", 0_i64);
    if let Some(unread) = packed(&made) {
        update.made.insert("ur", unread);
    }
    let mut filter = doc! {
        "_id": id(mark.key),
        "ur": { "$exists": false },
        "read": { "$gte": raise.from, "$lt": raise.to },
    };
    if let Some(expected) = mark.expected {
        // Settings may have changed since the caller read the dialog.
        filter.insert("v", expected.get());
    }
    Some(upsert(filter, update))
}

/// Writes a marked dialog, if its read ranges are unchanged.
fn replace_statement(before: &Dialog, after: &Dialog, now: Timestamp) -> Document {
    let unread = packed(&before.read).unwrap_or_else(|| doc! { "$exists": false }.into());
    let filter = doc! { "_id": id(before.key), "read": before.read.read_seq(), "ur": unread };
    let mut update = DialogUpdate::new(now);
    update.put("read", Some(after.read.read_seq().into()));
    update.put("ur", packed(&after.read));
    update.made.insert("sv", 0_i64);
    upsert(filter, update)
}

fn upsert(filter: Document, update: DialogUpdate) -> Document {
    doc! { "q": filter, "u": update.into_document(), "upsert": true }
}

/// Returns the error for a batch of which a part was written before.
fn after_partial_write(error: StoreError) -> StoreError {
    match error.outcome() {
        Outcome::Unknown => error,
        Outcome::NotApplied => StoreError::Unavailable { outcome: Outcome::Unknown, source: Arc::new(error) },
    }
}
