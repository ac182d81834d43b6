//! Reactions to messages: a row for each, and the counts of each document's messages.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use kith_store::{
    BATCH_MAX, ChangedReactions, ConversationId, DOCUMENT, DecidedReactions, DocumentKey, OwnedReaction,
    REACTION_CHANGES_MAX, REACTION_SEQS_MAX, Reaction, ReactionChange, ReactionKey, ReactionKind,
    ReactionList, ReactionPosition, ReactionState, ReactionStore, ReactionSummary, Seq, StoreError,
    Timestamp, UserId, at_most, document_of,
};
use rusqlite::{Connection, Row, params};

use super::page;
use crate::{
    Sqlite,
    error::{Failure, corrupt},
    row::{size, user_id, version},
    statement::{all, first, run},
};

/// Uses the primary key.
pub(crate) const SUMMARY: &str =
    "SELECT version, packed FROM reaction_summaries WHERE conversation = ?1 AND document = ?2";
/// Uses the primary key.
pub(crate) const OWN: &str =
    "SELECT kind, made_ms FROM reactions WHERE conversation = ?1 AND seq = ?2 AND user_id = ?3";
/// Index `reactions_by_kind`.
pub(crate) const LIST: &str = "SELECT user_id, made_ms FROM reactions
    WHERE conversation = ?1 AND seq = ?2 AND kind = ?3 AND (made_ms, user_id) > (?4, ?5)
    ORDER BY made_ms, user_id LIMIT ?6";
/// Index `reactions_by_user`.
pub(crate) const OF_USER: &str = "SELECT conversation, seq, kind FROM reactions
    WHERE user_id = ?1 ORDER BY conversation, seq LIMIT ?2";
/// Primary key, a part of it.
pub(crate) const REMOVE_ALL: &str = "DELETE FROM reactions WHERE conversation = ?1 AND seq = ?2";
/// Primary key, a part of it.
pub(crate) const REMOVE_BELOW: &str = "DELETE FROM reactions WHERE conversation = ?1 AND seq < ?2";
/// Primary key, a part of it.
pub(crate) const REMOVE_SUMMARIES: &str =
    "DELETE FROM reaction_summaries WHERE conversation = ?1 AND document < ?2";
/// Uses the primary key.
pub(crate) const REMOVE: &str =
    "DELETE FROM reactions WHERE conversation = ?1 AND seq = ?2 AND user_id = ?3 AND kind = ?4";
const ADD: &str =
    "INSERT INTO reactions (conversation, seq, user_id, kind, made_ms) VALUES (?1, ?2, ?3, ?4, ?5)";
const PUT: &str = "INSERT INTO reaction_summaries (conversation, document, version, packed)
    VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (conversation, document) DO UPDATE SET version = ?3, packed = ?4";

#[async_trait]
impl ReactionStore for Sqlite {
    async fn reaction_summaries(&self, keys: &[DocumentKey]) -> Result<Vec<ReactionSummary>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let keys: BTreeSet<DocumentKey> = keys.iter().copied().collect();
        let read = move |connection: &Connection| {
            keys.into_iter().filter_map(|key| summary(connection, key).transpose()).collect()
        };
        self.readers.read(read).await
    }

    async fn change_reactions(
        &self,
        key: DocumentKey,
        changes: &[ReactionChange],
    ) -> Result<ChangedReactions, StoreError> {
        at_most(changes.len(), REACTION_CHANGES_MAX)?;
        let changes = changes.to_vec();
        self.writer.write(move |connection| change(connection, key, &changes)).await
    }

    async fn reactions(
        &self,
        list: &ReactionList,
        after: Option<ReactionPosition>,
        limit: usize,
    ) -> Result<Vec<Reaction>, StoreError> {
        let ReactionList { conversation, seq, kind } = list.clone();
        let (at, user) = after.map_or((i64::MIN, 0), |after| (after.at.0, after.user.get()));
        let values = (conversation.to_string(), seq, kind.to_string(), at, user, size(limit));
        let reaction = move |row: &Row<'_>| {
            let user = user_id(row, 0, "reactions.user_id")?;
            Ok(Reaction { key: ReactionKey { seq, user, kind: kind.clone() }, at: Timestamp(row.get(1)?) })
        };
        self.readers.all(LIST, values, reaction).await
    }

    async fn own_reactions(
        &self,
        conversation: ConversationId,
        user: UserId,
        seqs: &[Seq],
    ) -> Result<Vec<ReactionKey>, StoreError> {
        at_most(seqs.len(), REACTION_SEQS_MAX)?;
        let (log, seqs) = (conversation.to_string(), seqs.iter().copied().collect::<BTreeSet<_>>());
        let read = move |connection: &Connection| {
            let own = seqs.into_iter().map(|seq| own(connection, &log, seq, user));
            Ok(own.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().map(|(key, _)| key).collect())
        };
        self.readers.read(read).await
    }

    async fn reactions_of(&self, user: UserId, limit: usize) -> Result<Vec<OwnedReaction>, StoreError> {
        let owned = move |row: &Row<'_>| {
            let conversation: String = row.get(0)?;
            let conversation = conversation.parse().map_err(|_| corrupt("reactions.conversation"))?;
            Ok(OwnedReaction {
                conversation,
                key: ReactionKey { seq: row.get(1)?, user, kind: kind(row, 2)? },
            })
        };
        self.readers.all(OF_USER, [user.get(), size(limit)], owned).await
    }
}

/// Removes all reactions to these messages of one document.
pub(super) fn end(connection: &Connection, log: &str, seqs: &[Seq]) -> Result<(), Failure> {
    let Some(one) = seqs.first() else { return Ok(()) };
    let conversation = ConversationId::stored(log).map_err(|_| corrupt("messages.conversation"))?;
    let key = DocumentKey { conversation, document: document_of(*one) };
    let Some(after) = summary(connection, key)?.and_then(|summary| summary.without(seqs)) else {
        return Ok(());
    };
    put(connection, &after)?;
    seqs.iter().try_for_each(|seq| run(connection, REMOVE_ALL, params![log, seq]))
}

/// Removes all reactions to the messages in documents below a document.
pub(super) fn trim(connection: &Connection, log: &str, document: i64) -> Result<(), Failure> {
    run(connection, REMOVE_BELOW, params![log, document * DOCUMENT + 1])?;
    run(connection, REMOVE_SUMMARIES, params![log, document])
}

fn change(
    connection: &Connection,
    key: DocumentKey,
    changes: &[ReactionChange],
) -> Result<ChangedReactions, Failure> {
    let log = key.conversation.to_string();
    let decided = state(connection, key, &log, changes)?.decide(changes);
    write(connection, &log, &decided)?;
    Ok(decided.written())
}

fn state(
    connection: &Connection,
    key: DocumentKey,
    log: &str,
    changes: &[ReactionChange],
) -> Result<ReactionState, Failure> {
    let summary = summary(connection, key)?.unwrap_or(ReactionSummary::absent(key));
    let pairs: BTreeSet<(Seq, UserId)> = changes.iter().map(ReactionChange::pair).collect();
    let (mut own_rows, mut open) = (BTreeMap::new(), BTreeSet::new());
    for (seq, user) in pairs {
        own_rows.extend(own(connection, log, seq, user)?);
        if !open.contains(&seq) && document_of(seq) == key.document {
            let found = page::headers(connection, log, seq, seq)?;
            open.extend(found.into_iter().filter(|header| !header.recalled).map(|header| header.seq));
        }
    }
    Ok(ReactionState { summary, own: own_rows, open })
}

fn write(connection: &Connection, log: &str, decided: &DecidedReactions) -> Result<(), Failure> {
    if !decided.changes() {
        return Ok(());
    }
    for key in &decided.removed {
        run(connection, REMOVE, params![log, key.seq, key.user.get(), key.kind.as_str()])?;
    }
    for Reaction { key, at } in &decided.added {
        run(connection, ADD, params![log, key.seq, key.user.get(), key.kind.as_str(), at.0])?;
    }
    put(connection, &decided.summary)
}

fn put(connection: &Connection, summary: &ReactionSummary) -> Result<(), Failure> {
    let DocumentKey { conversation, document } = summary.key;
    run(connection, PUT, params![conversation.to_string(), document, summary.version.get(), summary.pack()])
}

fn summary(connection: &Connection, key: DocumentKey) -> Result<Option<ReactionSummary>, Failure> {
    first(connection, SUMMARY, params![key.conversation.to_string(), key.document], |row| {
        let bytes = row.get_ref(1)?.as_blob().map_err(|_| corrupt("reaction_summaries.packed"))?;
        let summary = ReactionSummary::unpack(key, version(row, 0)?, bytes);
        Ok(summary.ok_or_else(|| corrupt("reaction_summaries.packed"))?)
    })
}

/// A user's reactions to one message, with their times.
fn own(
    connection: &Connection,
    log: &str,
    seq: Seq,
    user: UserId,
) -> Result<Vec<(ReactionKey, Timestamp)>, Failure> {
    all(connection, OWN, params![log, seq, user.get()], |row| {
        Ok((ReactionKey { seq, user, kind: kind(row, 0)? }, Timestamp(row.get(1)?)))
    })
}

fn kind(row: &Row<'_>, at: usize) -> Result<ReactionKind, Failure> {
    let text = row.get_ref(at)?.as_str().map_err(|_| corrupt("reactions.kind"))?;
    Ok(text.parse().map_err(|_| corrupt("reactions.kind"))?)
}
