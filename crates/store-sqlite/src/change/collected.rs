//! Packs what the triggers collected into entries, in the commit that made the changes.

use std::collections::HashSet;

use kith_store::{
    AudienceId, ConversationId, DialogKey, DocumentKey, ENTRY_CHANGES_MAX, Edge, FeedChange, FeedRecord,
    GroupId, MemberKey, NoticeId, SeqRange, StoreError, Timestamp, UserId, Version, pack_changes,
};
use rusqlite::{Connection, Row, params};

use super::ENTRY_BYTES;
use crate::{
    error::{Failure, corrupt},
    row::size,
    statement::{all, run},
};

const COLLECTED: &str =
    "SELECT source, first, second, text, version FROM temp.changed_records ORDER BY place";
const CLEAR: &str = "DELETE FROM temp.changed_records";
/// Takes the next number. Each part is one step in the primary key.
const ADD: &str = "INSERT INTO changes (number, written_ms, total, packed) VALUES (
    1 + coalesce((SELECT max(number) FROM changes), (SELECT base FROM changes_state)), ?1,
    ?2 + coalesce((SELECT total FROM changes ORDER BY number DESC LIMIT 1), 0), ?3)";

/// Keeps the collected changes as entries of the open transaction, and clears them.
pub(super) fn keep(connection: &Connection) -> Result<(), Failure> {
    let collected = all(connection, COLLECTED, [], change)?;
    if collected.is_empty() {
        return Ok(());
    }
    let now = Timestamp::now();
    for entry in distinct(collected).chunks(ENTRY_CHANGES_MAX) {
        let packed = pack_changes(entry);
        run(connection, ADD, params![now.0, size(packed.len() + ENTRY_BYTES), packed])?;
    }
    run(connection, CLEAR, [])
}

/// Leaves the last change to each record, joins messages with the numbers before them, and leaves out the
/// logs that are Kith's own.
fn distinct(mut changes: Vec<FeedChange>) -> Vec<FeedChange> {
    let mut later = HashSet::new();
    changes.reverse();
    changes.retain(|change| !is_internal(&change.record) && later.insert(change.record));
    changes.reverse();
    changes.dedup_by(|next, last| joined(last, next));
    changes
}

/// Whether the messages directly follow the last ones; these then include them.
fn joined(last: &mut FeedChange, next: &FeedChange) -> bool {
    match (&mut last.record, next.record) {
        (FeedRecord::Messages(log, range), FeedRecord::Messages(of, more))
            if *log == of && range.last + 1 == more.first =>
        {
            range.last = more.last;
            true
        }
        _ => false,
    }
}

fn change(row: &Row<'_>) -> Result<FeedChange, Failure> {
    let version = row.get::<_, Option<i64>>(4)?.and_then(Version::new);
    Ok(FeedChange { record: record(row)?, version, by_hand: false })
}

fn bad_row() -> StoreError {
    corrupt("changed_records")
}

fn record(row: &Row<'_>) -> Result<FeedRecord, Failure> {
    let bad = |_| bad_row();
    let number = |at| Ok::<i64, Failure>(row.get(at)?);
    let user = |at| Ok::<_, Failure>(UserId::new(number(at)?).map_err(bad)?);
    let group = || Ok::<_, Failure>(GroupId::new(number(1)?).map_err(bad)?);
    let log = || {
        Ok::<_, Failure>(
            ConversationId::stored(row.get_ref(3)?.as_str().map_err(|_| bad_row())?).map_err(bad)?,
        )
    };
    let edge = || Ok::<_, Failure>(Edge { from: user(1)?, to: user(2)? });
    let record = match row.get_ref(0)?.as_str().map_err(|_| bad_row())? {
        "users" => FeedRecord::User(user(1)?),
        "groups" => FeedRecord::Group(group()?),
        "follows" => FeedRecord::Follow(edge()?),
        "blocks" => FeedRecord::Block(edge()?),
        "members" => FeedRecord::Member(MemberKey { group: group()?, user: user(2)? }),
        "rosters" => FeedRecord::Roster(group()?),
        "dialogs" => FeedRecord::Dialog(DialogKey { user: user(1)?, conversation: log()? }),
        "conversations" => FeedRecord::Conversation(log()?),
        "messages" => FeedRecord::Messages(log()?, SeqRange { first: number(1)?, last: number(1)? }),
        "audiences" => FeedRecord::Audience(AudienceId::new(number(1)?).map_err(bad)?),
        "reaction_summaries" => {
            FeedRecord::Reactions(DocumentKey { conversation: log()?, document: number(1)? })
        }
        "notices" => FeedRecord::Notice(NoticeId::new(number(1)?).map_err(bad)?),
        _ => return Err(bad_row().into()),
    };
    Ok(record)
}

fn is_internal(record: &FeedRecord) -> bool {
    matches!(
        record,
        FeedRecord::Messages(ConversationId::Offline(_), _)
            | FeedRecord::Conversation(ConversationId::Offline(_))
    )
}
