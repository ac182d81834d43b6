//! Appending: numbers, and messages that are sent again.

use std::collections::BTreeSet;

use kith_store::{
    Appended, ContentHash, DOCUMENT, MessageKey, MessageKind, NewMessage, Seq, StoreError, Timestamp, UserId,
};
use rusqlite::{Connection, params};

use super::{end, packed::Packed, page};
use crate::{
    error::{Failure, corrupt},
    row::size,
    statement::{first, run},
};

const _: () = assert!(DOCUMENT == 100);

/// Adds nothing if the log has a message with the key.
const INSERT: &str = "INSERT INTO messages
        (conversation, seq, sender, sent_ms, flags, version, key, hash, body)
    VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8) ON CONFLICT (conversation, key) DO NOTHING";
/// A document's first message: the highest time up to it, by the document before it and that document's
/// messages. Uses index `message_documents_by_time`, and the primary key.
pub(crate) const BEGIN_DOCUMENT: &str = "INSERT INTO message_documents (conversation, first, highest_ms, settled)
    SELECT ?1, ?2, max(?3,
        coalesce((SELECT max(highest_ms) FROM message_documents WHERE conversation = ?1), ?3),
        coalesce((SELECT max(sent_ms) FROM messages WHERE conversation = ?1 AND seq BETWEEN ?2 - 100 AND ?2 - 1), ?3)
    ), 0";
/// Index `messages_sent`, then the primary key.
pub(crate) const BY_KEY: &str =
    "SELECT seq, sent_ms, hash FROM messages WHERE conversation = ?1 AND key = ?2";

/// A new message as its row has it.
#[derive(Debug)]
pub(super) struct NewRow {
    key: MessageKey,
    hash: ContentHash,
    sender: i64,
    sent: Timestamp,
    flags: i64,
    body: Vec<u8>,
}

impl NewRow {
    /// Packs a message.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub(super) fn of(new: &NewMessage) -> Result<Self, StoreError> {
        let is_event = new.kind == MessageKind::Event;
        let flags =
            [(new.silent, page::SILENT), (new.mention_all, page::MENTION_ALL), (is_event, page::EVENT)];
        Ok(Self {
            key: new.key,
            hash: new.hash,
            sender: new.sender.map_or(0, UserId::get),
            sent: new.sent,
            flags: flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum(),
            body: Packed::of(new).encode(&new.body)?,
        })
    }
}

/// Whether one append may have these messages.
pub(super) fn fits(batch: &[NewMessage]) -> bool {
    let keys = || batch.iter().map(|new| new.key).collect::<BTreeSet<_>>();
    size(batch.len()) <= DOCUMENT && keys().len() == batch.len()
}

/// Appends the rows in their order. No other append comes between: there is one connection that writes.
pub(super) fn append(connection: &Connection, log: &str, rows: &[NewRow]) -> Result<Vec<Appended>, Failure> {
    let mut next = end(connection, log)?.seq + 1;
    let mut appended = Vec::with_capacity(rows.len());
    for row in rows {
        let one = append_one(connection, log, next, row)?;
        next += i64::from(one == Appended::New(next));
        appended.push(one);
    }
    Ok(appended)
}

fn append_one(connection: &Connection, log: &str, seq: Seq, row: &NewRow) -> Result<Appended, Failure> {
    let (key, hash) = (row.key.0, row.hash.0);
    let values = params![log, seq, row.sender, row.sent.0, row.flags, key, hash, row.body];
    match connection.prepare_cached(INSERT)?.execute(values)? {
        0 => sent_before(connection, log, row)?.ok_or_else(|| corrupt("messages.key").into()),
        _ => {
            if seq % DOCUMENT == 1 {
                run(connection, BEGIN_DOCUMENT, params![log, seq, row.sent.0])?;
            }
            Ok(Appended::New(seq))
        }
    }
}

/// The result for a message whose key is in the log; `None`: it is not.
pub(super) fn sent_before(
    connection: &Connection,
    log: &str,
    row: &NewRow,
) -> Result<Option<Appended>, Failure> {
    first(connection, BY_KEY, params![log, row.key.0], |found| {
        let (seq, sent, hash) = (found.get(0)?, Timestamp(found.get(1)?), found.get::<_, Vec<u8>>(2)?);
        // An erased message has lost its hash, too.
        let is_same = hash.is_empty() || hash == row.hash.0;
        Ok(if is_same { Appended::Replayed { seq, sent } } else { Appended::OtherContent })
    })
}
