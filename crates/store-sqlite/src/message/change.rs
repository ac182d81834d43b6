//! A change to one message, with its event: in the savepoint of one write, so that no other write comes
//! between.

use kith_store::{Appended, ContentChange, Message, MessageChange, MessageChangeOutcome, Seq};
use rusqlite::{Connection, params};

use super::{
    append::{self, NewRow},
    packed::Packed,
    page::{self, MENTION_ALL},
    reaction,
};
use crate::{
    error::{Failure, corrupt},
    statement::run,
};

/// Uses the primary key. A mention of all is a separate flag: it is set or removed with the content.
pub(crate) const UPDATE: &str =
    "UPDATE messages SET version = version + 1, flags = (flags & ~?3) | ?4, body = ?5
    WHERE conversation = ?1 AND seq = ?2";
/// Uses the primary key.
pub(crate) const BODY: &str = "SELECT body FROM messages WHERE conversation = ?1 AND seq = ?2";

/// Makes a change and appends its event, or does neither.
pub(super) fn change(
    connection: &Connection,
    log: &str,
    change: &MessageChange,
    event: &NewRow,
) -> Result<MessageChangeOutcome, Failure> {
    let Some(before) = message(connection, log, change.seq)? else {
        return Ok(MessageChangeOutcome::Missing);
    };
    match append::sent_before(connection, log, event)? {
        Some(Appended::Replayed { seq: event_seq, sent: event_sent }) => {
            return Ok(MessageChangeOutcome::Done { message: before, event_seq, event_sent, replayed: true });
        }
        None if change.content.applies_to(&before) => {}
        _ => return Ok(MessageChangeOutcome::Refused(before)),
    }
    let event_seq = append_event(connection, log, event)?;
    update(connection, log, change, event_seq)?;
    let message = message(connection, log, change.seq)?.ok_or_else(|| corrupt("messages.seq"))?;
    Ok(MessageChangeOutcome::Done { message, event_seq, event_sent: change.event.sent, replayed: false })
}

fn append_event(connection: &Connection, log: &str, event: &NewRow) -> Result<Seq, Failure> {
    match append::append(connection, log, std::slice::from_ref(event))?[..] {
        [Appended::New(seq)] => Ok(seq),
        _ => Err(corrupt("messages.key").into()),
    }
}

fn message(connection: &Connection, log: &str, seq: Seq) -> Result<Option<Message>, Failure> {
    Ok(page::read(connection, log, seq, seq)?.pop())
}

fn update(connection: &Connection, log: &str, change: &MessageChange, event_seq: Seq) -> Result<(), Failure> {
    let column: Vec<u8> =
        connection.prepare_cached(BODY)?.query_row(params![log, change.seq], |row| row.get(0))?;
    let (packed, _) = Packed::decode(&column).ok_or_else(|| corrupt("messages.body"))?;
    let (flags, body) = match &change.content {
        ContentChange::Recall(recalled) => {
            reaction::end(connection, log, &[change.seq])?;
            (0, packed.recalled(*recalled).encode(b"")?)
        }
        ContentChange::Edit(content) => {
            let flags = if content.mention_all { MENTION_ALL } else { 0 };
            (flags, packed.edited(content, event_seq).encode(&content.body)?)
        }
    };
    run(connection, UPDATE, params![log, change.seq, MENTION_ALL, flags, body])
}
