//! The users' dialogs. The contract's functions decide marks and changes of settings, in the transaction that
//! writes the result.

use std::collections::HashSet;

use async_trait::async_trait;
use kith_store::{
    Applied, BATCH_MAX, ConversationId, Dialog, DialogKey, DialogList, DialogMark, DialogPatch,
    DialogPosition, DialogStore, MARK_RANGES_MAX, MARKS_AT_ONCE, MarkBase, MarkKind, ReadRanges, Seq,
    SeqRange, StoreError, Timestamp, UserId, Version, Write, at_most,
};
use rusqlite::{Connection, Row, params, types::ValueRef};

use crate::{
    Sqlite,
    error::{Failure, corrupt},
    row::{moment, size, version},
    state::check_expected,
    statement::{first, run},
};

macro_rules! select {
    () => {
        "SELECT conversation, version, settings_version, read_seq, unread_ranges, min_seq, max_seq, pinned_ms, \
         hidden_seq, dnd, marked, ext, day FROM dialogs WHERE user_id = ?1"
    };
}

/// Uses the primary key.
pub(crate) const BY_KEY: &str = concat!(select!(), " AND conversation = ?2");
/// Uses the index `dialogs_recent`.
pub(crate) const LIST: &str =
    concat!(select!(), " AND (day, conversation) < (?2, ?3) ORDER BY day DESC, conversation DESC LIMIT ?4");
/// Uses the index `dialogs_recent`. Texts of direct conversations, and no others, begin with d.
pub(crate) const LIST_DIRECT: &str = concat!(
    select!(),
    " AND (day, conversation) < (?2, ?3) AND conversation >= 'd' AND conversation < 'e'
    ORDER BY day DESC, conversation DESC LIMIT ?4"
);
/// Uses the primary key.
pub(crate) const CONVERSATIONS: &str = "SELECT conversation FROM dialogs WHERE user_id = ?1 AND conversation > ?2 ORDER BY conversation LIMIT ?3";
/// On conflict the day is left alone: naming a column makes SQLite write its index again.
const PUT: &str =
    "INSERT INTO dialogs (user_id, conversation, version, settings_version, read_seq, unread_ranges,
        min_seq, max_seq, pinned_ms, hidden_seq, dnd, marked, ext, day)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
    ON CONFLICT (user_id, conversation) DO UPDATE SET version = excluded.version,
        settings_version = excluded.settings_version, read_seq = excluded.read_seq,
        unread_ranges = excluded.unread_ranges, min_seq = excluded.min_seq, max_seq = excluded.max_seq,
        pinned_ms = excluded.pinned_ms, hidden_seq = excluded.hidden_seq, dnd = excluded.dnd,
        marked = excluded.marked, ext = excluded.ext";
/// Uses the primary key.
pub(crate) const SET_DAY: &str =
    "UPDATE dialogs SET day = ?3 WHERE user_id = ?1 AND conversation = ?2 AND day < ?3";
const MAKE: &str =
    "INSERT INTO dialogs (user_id, conversation, version, settings_version, read_seq, dnd, marked, day)
    VALUES (?1, ?2, 1, 0, 0, 0, 0, ?3) ON CONFLICT (user_id, conversation) DO NOTHING";

#[async_trait]
impl DialogStore for Sqlite {
    async fn dialogs(&self, keys: &[DialogKey]) -> Result<Vec<Dialog>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let keys: HashSet<DialogKey> = keys.iter().copied().collect();
        let read = move |connection: &Connection| {
            keys.into_iter().filter_map(|key| read(connection, key).transpose()).collect()
        };
        self.readers.read(read).await
    }

    async fn dialog_list(
        &self,
        user: UserId,
        list: DialogList,
        after: Option<DialogPosition>,
        limit: usize,
    ) -> Result<Vec<Dialog>, StoreError> {
        let sql = match list {
            DialogList::All => LIST,
            DialogList::Direct => LIST_DIRECT,
        };
        let (day, conversation) = after
            .map_or((i64::MAX, String::new()), |position| (position.day, position.conversation.to_string()));
        let values = (user.get(), day, conversation, size(limit));
        self.readers.all(sql, values, move |row| dialog_of(user, row)).await
    }

    async fn dialog_conversations(
        &self,
        user: UserId,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<ConversationId>, StoreError> {
        let after = after.map_or_else(String::new, String::from);
        self.readers.all(CONVERSATIONS, (user.get(), after, size(limit)), conversation_of).await
    }

    async fn mark_dialogs(
        &self,
        marks: &[DialogMark],
        now: Timestamp,
    ) -> Result<Vec<Result<MarkBase, StoreError>>, StoreError> {
        at_most(marks.len(), MARKS_AT_ONCE)?;
        if marks.iter().any(has_too_many_ranges) {
            return Err(StoreError::Overloaded);
        }
        let marks = marks.to_vec();
        let write = move |connection: &Connection| {
            marks.iter().map(|mark| of_one(make_mark(connection, mark, now))).collect()
        };
        self.writer.write(write).await
    }

    async fn change_dialog(
        &self,
        key: DialogKey,
        patch: DialogPatch,
        write: Write,
    ) -> Result<Applied<Dialog>, StoreError> {
        self.writer.once(write, move |connection, write| change(connection, key, &patch, write)).await
    }

    async fn make_dialogs(&self, keys: &[DialogKey], now: Timestamp) -> Result<(), StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let keys = keys.to_vec();
        let make = move |connection: &Connection| {
            for key in keys {
                let row = params![key.user.get(), key.conversation.to_string(), Dialog::day_of(now)];
                run(connection, MAKE, row)?;
            }
            Ok(())
        };
        self.writer.write(make).await
    }

    async fn reduce_dialogs(
        &self,
        user: UserId,
        ends: &[(ConversationId, Seq)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        at_most(ends.len(), BATCH_MAX)?;
        let ends = ends.to_vec();
        let reduce = move |connection: &Connection| {
            for (conversation, end) in ends {
                let dialog = read(connection, DialogKey { user, conversation })?;
                if let Some(reduced) = dialog.and_then(|dialog| dialog.reduced(end, now)) {
                    put(connection, &reduced)?;
                }
            }
            Ok(())
        };
        self.writer.write(reduce).await
    }
}

fn has_too_many_ranges(mark: &DialogMark) -> bool {
    matches!(&mark.mark.kind, MarkKind::Ranges(ranges) if ranges.len() > MARK_RANGES_MAX)
}

/// An error of one mark does not affect the others of its batch.
fn of_one(made: Result<MarkBase, Failure>) -> Result<Result<MarkBase, StoreError>, Failure> {
    match made {
        Ok(base) => Ok(Ok(base)),
        Err(Failure::Store(error @ (StoreError::TooManyRanges(_) | StoreError::Corrupt { .. }))) => {
            Ok(Err(error))
        }
        Err(failure) => Err(failure),
    }
}

fn make_mark(connection: &Connection, mark: &DialogMark, now: Timestamp) -> Result<MarkBase, Failure> {
    let dialog = read(connection, mark.key)?.unwrap_or_else(|| Dialog::absent(mark.key));
    let Some(marked) = dialog.marked(&mark.mark, now).map_err(StoreError::from)? else {
        return Ok(MarkBase::Other);
    };
    put(connection, &marked)?;
    Ok(if mark.expected == Some(dialog.version) { MarkBase::Expected } else { MarkBase::Other })
}

fn change(
    connection: &Connection,
    key: DialogKey,
    patch: &DialogPatch,
    write: &Write,
) -> Result<Dialog, Failure> {
    let dialog = read(connection, key)?.unwrap_or_else(|| Dialog::absent(key));
    check_expected(write, dialog.settings_version)?;
    let changed = dialog.changed(patch, write.now);
    put(connection, &changed)?;
    Ok(changed)
}

fn read(connection: &Connection, key: DialogKey) -> Result<Option<Dialog>, Failure> {
    let values = params![key.user.get(), key.conversation.to_string()];
    first(connection, BY_KEY, values, |row| dialog_of(key.user, row))
}

fn put(connection: &Connection, dialog: &Dialog) -> Result<(), Failure> {
    let (user, conversation) = (dialog.key.user.get(), dialog.key.conversation.to_string());
    let ranges = packed(dialog.read.unread());
    let row = params![
        user,
        conversation,
        dialog.version.get(),
        dialog.settings_version.get(),
        dialog.read.read_seq(),
        Some(ranges).filter(|ranges| !ranges.is_empty()),
        dialog.min_seq,
        dialog.max_seq,
        dialog.pinned.map(|pinned| pinned.0),
        dialog.hidden_seq,
        dialog.do_not_disturb,
        dialog.marked_unread,
        Some(&dialog.ext).filter(|ext| !ext.is_empty()),
        dialog.day,
    ];
    run(connection, PUT, row)?;
    if dialog.version != Version::FIRST {
        run(connection, SET_DAY, params![user, conversation, dialog.day])?;
    }
    Ok(())
}

fn dialog_of(user: UserId, row: &Row<'_>) -> Result<Dialog, Failure> {
    let read = ReadRanges::new(row.get(3)?, unpacked(blob(row, 4)?)?);
    Ok(Dialog {
        key: DialogKey { user, conversation: conversation_of(row)? },
        version: version(row, 1)?,
        settings_version: version(row, 2)?,
        read: read.ok_or_else(|| corrupt("dialogs.unread_ranges"))?,
        min_seq: row.get(5)?,
        max_seq: row.get(6)?,
        pinned: moment(row, 7)?,
        hidden_seq: row.get(8)?,
        do_not_disturb: row.get(9)?,
        marked_unread: row.get(10)?,
        ext: blob(row, 11)?.to_vec(),
        day: row.get(12)?,
    })
}

fn conversation_of(row: &Row<'_>) -> Result<ConversationId, Failure> {
    let text = row.get_ref(0)?.as_str().map_err(|_| corrupt("dialogs.conversation"))?;
    Ok(text.parse().map_err(|_| corrupt("dialogs.conversation"))?)
}

/// Reads bytes; NULL gives none.
fn blob<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a [u8], Failure> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(&[]),
        ValueRef::Blob(bytes) => Ok(bytes),
        _ => Err(corrupt("a column of a dialog").into()),
    }
}

fn packed(ranges: &[SeqRange]) -> Vec<u8> {
    ranges.iter().flat_map(|range| [range.first, range.last]).flat_map(i64::to_be_bytes).collect()
}

fn unpacked(bytes: &[u8]) -> Result<Vec<SeqRange>, Failure> {
    let (numbers, []) = bytes.as_chunks::<8>() else { return Err(corrupt("dialogs.unread_ranges").into()) };
    let numbers: Vec<Seq> = numbers.iter().map(|number| Seq::from_be_bytes(*number)).collect();
    let (ranges, []) = numbers.as_chunks::<2>() else { return Err(corrupt("dialogs.unread_ranges").into()) };
    Ok(ranges.iter().map(|[first, last]| SeqRange { first: *first, last: *last }).collect())
}
