//! Reading messages.

use kith_store::{
    ConversationId, DOCUMENT, DocumentKey, LogDocument, LogHead, Message, MessageKind, Seq, StoredHeader,
    Timestamp, UserId, Version,
};
use rusqlite::{Connection, Row, params};

use super::{
    header_tables::{HeaderTables, LogCounts},
    packed::Packed,
};
use crate::{
    error::{Failure, corrupt},
    statement::{all, first},
};

/// Uses the primary key.
pub(crate) const PAGE: &str = "SELECT seq, sender, sent_ms, flags, body FROM messages
    WHERE conversation = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq";

/// Primary key, its end.
pub(crate) const LAST: &str = "SELECT seq, sender, sent_ms, flags, body FROM messages
    WHERE conversation = ?1 ORDER BY seq DESC LIMIT 1";

/// Uses the primary key.
pub(crate) const VERSIONS: &str =
    "SELECT SUM(version) FROM messages WHERE conversation = ?1 AND seq BETWEEN ?2 AND ?3";

/// Flags a message that leaves unread counts as they are.
pub(super) const SILENT: i64 = 1;
/// Flags a message that mentions every reader.
pub(super) const MENTION_ALL: i64 = 2;
/// Flags a message that Kith made.
pub(super) const EVENT: i64 = 4;

/// The messages from `first` to `last` that exist, by rising number.
pub(super) fn read(
    connection: &Connection,
    log: &str,
    first: Seq,
    last: Seq,
) -> Result<Vec<Message>, Failure> {
    all(connection, PAGE, params![log, first, last], message_of)
}

/// A whole document. Its version is the sum of its messages' versions, so that it increases with each of
/// them.
pub(super) fn document(connection: &Connection, key: DocumentKey) -> Result<Option<LogDocument>, Failure> {
    let (log, first) = (key.conversation.to_string(), key.first());
    let last = first + DOCUMENT - 1;
    // All reads show one moment.
    let reads = connection.unchecked_transaction()?;
    let sum: Option<i64> =
        reads.prepare_cached(VERSIONS)?.query_row(params![log, first, last], |row| row.get(0))?;
    let Some(sum) = sum else { return Ok(None) };
    let version = Version::new(sum).ok_or_else(|| corrupt("version"))?;
    Ok(Some(LogDocument { key, version, messages: read(&reads, &log, first, last)? }))
}

/// Like `read`, but returns the headers.
pub(super) fn headers(
    connection: &Connection,
    log: &str,
    first: Seq,
    last: Seq,
) -> Result<Vec<StoredHeader>, Failure> {
    if first > last {
        return Ok(Vec::new());
    }
    all(connection, PAGE, params![log, first, last], header_of)
}

/// A log's last message, and the headers of those of the last [`DOCUMENT`] messages that are above a number.
/// `counts`: read before the connection's transaction began to read.
pub(super) fn head(
    connection: &Connection,
    tables: &HeaderTables,
    log: ConversationId,
    above: Seq,
    counts: LogCounts,
) -> Result<LogHead, Failure> {
    let text = log.to_string();
    let Some(last) = first(connection, LAST, [&text], message_of)? else { return Ok(LogHead::default()) };
    let end = last.seq;
    let oldest = (end - DOCUMENT + 1).max(1);
    let from = above.saturating_add(1).clamp(oldest, end + 1);
    let table = tables.get(log, counts).filter(|table| (oldest - 1..=end).contains(&table.last()));
    let mut all = match table {
        Some(table) => {
            let mut all = headers(connection, &text, from, table.first() - 1)?;
            all.extend(table.from(oldest));
            all.extend(headers(connection, &text, table.last() + 1, end)?);
            all
        }
        None if from > end => vec![StoredHeader::of(&last)],
        None => headers(connection, &text, from, end)?,
    };
    tables.put(log, counts, &all, &last);
    let headers = all.split_off(all.partition_point(|header| header.seq < from));
    Ok(LogHead { last: Some(last), headers })
}

fn header_of(row: &Row<'_>) -> Result<StoredHeader, Failure> {
    let flags: i64 = row.get(3)?;
    let body = row.get_ref(4)?.as_blob().map_err(|_| corrupt("messages.body"))?;
    let (packed, _) = Packed::decode(body).ok_or_else(|| corrupt("messages.body"))?;
    let recalled = packed.recall()?;
    Ok(StoredHeader {
        seq: row.get(0)?,
        sender: sender_of(row)?,
        silent: flags & (SILENT | EVENT) != 0,
        recalled: recalled.is_some(),
        mentions: packed.mentions,
        mention_all: flags & MENTION_ALL != 0,
    })
}

fn sender_of(row: &Row<'_>) -> Result<Option<UserId>, Failure> {
    let sender: i64 = row.get(1)?;
    let sender = (sender != 0).then(|| UserId::new(sender)).transpose();
    Ok(sender.map_err(|_| corrupt("messages.sender"))?)
}

fn message_of(row: &Row<'_>) -> Result<Message, Failure> {
    let flags: i64 = row.get(3)?;
    let body = row.get_ref(4)?.as_blob().map_err(|_| corrupt("messages.body"))?;
    let (packed, body) = Packed::decode(body).ok_or_else(|| corrupt("messages.body"))?;
    let (edited, recalled) = (packed.edits()?, packed.recall()?);
    Ok(Message {
        seq: row.get(0)?,
        sender: sender_of(row)?,
        sent: Timestamp(row.get(2)?),
        kind: if flags & EVENT == 0 { MessageKind::Message } else { MessageKind::Event },
        content_type: packed.content_type,
        body: body.to_vec().into(),
        mentions: packed.mentions,
        mention_all: flags & MENTION_ALL != 0,
        silent: flags & SILENT != 0,
        reply_to: packed.reply_to,
        client_message_id: packed.client_message_id,
        edited,
        recalled,
    })
}
