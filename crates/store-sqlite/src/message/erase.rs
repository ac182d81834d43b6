//! Removes the contents of all a sender's messages, a document at a time.

use kith_store::{
    DOCUMENT, Recalled, RecalledBy, SEARCHED_AT_ONCE, SentDocuments, Seq, Timestamp, UserId, document_of,
};
use rusqlite::{Connection, params};

use super::{packed::Packed, page, reaction};
use crate::{
    error::{Failure, corrupt},
    row::size,
    statement::{all, first, run},
};

/// Uses the primary key.
pub(crate) const FROM: &str =
    "SELECT seq FROM messages WHERE conversation = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1";
/// Primary key. A message whose content was erased has no hash.
pub(crate) const SENT_BY: &str = "SELECT seq FROM messages
    WHERE conversation = ?1 AND seq BETWEEN ?2 AND ?3 AND sender = ?4 AND flags & 4 = 0 AND length(hash) > 0
    ORDER BY seq";
/// Uses the primary key.
pub(crate) const ERASE: &str =
    "UPDATE messages SET version = version + 1, flags = flags & ~?3, hash = x'', body = ?4
    WHERE conversation = ?1 AND seq = ?2";

const _: () = assert!(page::EVENT == 4);

/// See [`MessageUpkeep::documents_sent_by`](kith_store::MessageUpkeep::documents_sent_by).
pub(super) fn documents(
    connection: &Connection,
    log: &str,
    sender: UserId,
    from: Seq,
) -> Result<SentDocuments, Failure> {
    let Some(from) = next(connection, log, from)? else {
        return Ok(SentDocuments { firsts: Vec::new(), next: None });
    };
    let end = (document_of(from) + size(SEARCHED_AT_ONCE)) * DOCUMENT;
    let mut firsts: Vec<Seq> = sent_by(connection, log, sender, from, end)?;
    firsts.iter_mut().for_each(|seq| *seq = document_of(*seq) * DOCUMENT + 1);
    firsts.dedup();
    Ok(SentDocuments { firsts, next: next(connection, log, end + 1)? })
}

/// See [`MessageUpkeep::erase_document`](kith_store::MessageUpkeep::erase_document).
pub(super) fn erase(
    connection: &Connection,
    log: &str,
    first: Seq,
    sender: UserId,
    now: Timestamp,
) -> Result<u64, Failure> {
    let seqs = sent_by(connection, log, sender, first, first + DOCUMENT - 1)?;
    for seq in &seqs {
        erase_one(connection, log, *seq, now)?;
    }
    reaction::end(connection, log, &seqs)?;
    Ok(u64::try_from(seqs.len()).unwrap_or(u64::MAX))
}

fn erase_one(connection: &Connection, log: &str, seq: Seq, now: Timestamp) -> Result<(), Failure> {
    let column: Vec<u8> =
        connection.prepare_cached(super::change::BODY)?.query_row(params![log, seq], |row| row.get(0))?;
    let (packed, _) = Packed::decode(&column).ok_or_else(|| corrupt("messages.body"))?;
    let before = packed.recall()?;
    let recalled = before.unwrap_or(Recalled { by: RecalledBy::Erasure, time: now });
    let body = packed.recalled(recalled).encode(b"")?;
    run(connection, ERASE, params![log, seq, page::MENTION_ALL, body])
}

/// Finds the first stored number from this number on.
fn next(connection: &Connection, log: &str, from: Seq) -> Result<Option<Seq>, Failure> {
    first(connection, FROM, params![log, from], |row| Ok(row.get(0)?))
}

fn sent_by(
    connection: &Connection,
    log: &str,
    sender: UserId,
    first: Seq,
    last: Seq,
) -> Result<Vec<Seq>, Failure> {
    all(connection, SENT_BY, params![log, first, last, sender.get()], |row| Ok(row.get(0)?))
}
