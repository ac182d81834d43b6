//! Reading messages.

use kith_store::{Message, MessageKind, Seq, Timestamp, UserId};
use rusqlite::{Connection, Row, params};

use super::packed::Packed;
use crate::error::{Failure, corrupt};

/// Primary key.
pub(crate) const PAGE: &str = "SELECT seq, sender, sent_ms, flags, body FROM messages
    WHERE conversation = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq";

/// Flag of a message that leaves unread counts as they are.
pub(super) const SILENT: i64 = 1;
/// Flag of a message that mentions every reader.
pub(super) const MENTION_ALL: i64 = 2;
/// Flag of a message that Kith made.
pub(super) const EVENT: i64 = 4;

/// The messages from `first` to `last` that exist, by rising number.
pub(super) fn read(
    connection: &Connection,
    log: &str,
    first: Seq,
    last: Seq,
) -> Result<Vec<Message>, Failure> {
    let mut read = connection.prepare_cached(PAGE)?;
    let mut rows = read.query(params![log, first, last])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(message_of(row)?);
    }
    Ok(found)
}

fn message_of(row: &Row<'_>) -> Result<Message, Failure> {
    let (sender, flags): (i64, i64) = (row.get(1)?, row.get(3)?);
    let sender = (sender != 0).then(|| UserId::new(sender)).transpose();
    let body = row.get_ref(4)?.as_blob().map_err(|_| corrupt("messages.body"))?;
    let (packed, body) = Packed::decode(body).ok_or_else(|| corrupt("messages.body"))?;
    Ok(Message {
        seq: row.get(0)?,
        sender: sender.map_err(|_| corrupt("messages.sender"))?,
        sent: Timestamp(row.get(2)?),
        kind: if flags & EVENT == 0 { MessageKind::Message } else { MessageKind::Event },
        content_type: packed.content_type,
        body: body.to_vec().into(),
        mentions: packed.mentions,
        mention_all: flags & MENTION_ALL != 0,
        silent: flags & SILENT != 0,
        reply_to: packed.reply_to,
        client_message_id: packed.client_message_id,
    })
}
