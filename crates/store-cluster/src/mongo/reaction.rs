//! Reactions: rows `{_id: {c: conversation, s: message, u: user, k: kind}, t}`, and for each document of
//! messages a summary `{_id: {c: conversation, d: document}, v, b: counts, w, u}`. `w` is a random number
//! from the insert, `u` from the last update. A summary without `b` counts nothing.
//!
//! Every transaction that changes rows, or removes a message's content, writes the summary: so two of them
//! never commit without seeing each other.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use kith_store::{
    BATCH_MAX, ChangedReactions, ConversationId, DOCUMENT, DecidedReactions, DocumentKey, OwnedReaction,
    REACTION_CHANGES_MAX, REACTION_SEQS_MAX, Reaction, ReactionChange, ReactionKey, ReactionKind,
    ReactionList, ReactionPosition, ReactionState, ReactionStore, ReactionSummary, Seq, StoreError,
    Timestamp, UserId, Version, at_most,
};
use mongodb::{
    ClientSession,
    bson::{Binary, Bson, Document, RawDocument, RawDocumentBuf, doc, rawdoc, spec::BinarySubtype},
    options::{Hint, ReadConcern, ReturnDocument},
};

use super::{
    database::{Mongo, SUMMARIES},
    document::{count, moment, number_in},
    error::{malformed, read_failed},
    message::document_id,
    record::all,
    transaction::before_commit,
    write::{Failure, Retries},
};

#[async_trait]
impl ReactionStore for Mongo {
    async fn reaction_summaries(&self, keys: &[DocumentKey]) -> Result<Vec<ReactionSummary>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let ids: BTreeSet<DocumentKey> = keys.iter().copied().collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let _permit = self.admit()?;
        let limit = ids.len();
        let ids = ids.into_iter().map(|key| document_id(key.conversation, key.document));
        let filter = doc! { "_id": { "$in": ids.collect::<Vec<_>>() } };
        let found = self.cursor(&self.reaction_summaries, filter, None, limit, ReadConcern::majority());
        all(found.await?, summary).await
    }

    async fn change_reactions(
        &self,
        key: DocumentKey,
        changes: &[ReactionChange],
    ) -> Result<ChangedReactions, StoreError> {
        at_most(changes.len(), REACTION_CHANGES_MAX)?;
        let _permit = self.admit()?;
        let mut retries = Retries::within(self.options.append);
        loop {
            match Box::pin(self.try_reactions(key, changes)).await {
                Ok(changed) => return Ok(changed),
                Err(failure) => retries.after(failure).await?,
            }
        }
    }

    async fn reactions(
        &self,
        list: &ReactionList,
        after: Option<ReactionPosition>,
        limit: usize,
    ) -> Result<Vec<Reaction>, StoreError> {
        let _permit = self.admit()?;
        let mut filter = doc! {
            "_id.c": list.conversation.to_string(), "_id.s": list.seq, "_id.k": list.kind.as_str(),
        };
        if let Some(ReactionPosition { at, user }) = after {
            let same_time = doc! { "t": at.0, "_id.u": { "$gt": user.get() } };
            filter.insert("$or", vec![doc! { "t": { "$gt": at.0 } }, same_time]);
        }
        let find = self.reactions.find(filter).sort(doc! { "t": 1, "_id.u": 1 }).limit(count(limit));
        let find = find.hint(Hint::Name("by_kind".to_owned())).max_time(self.options.command);
        all(find.await.map_err(read_failed)?, reaction).await
    }

    async fn own_reactions(
        &self,
        conversation: ConversationId,
        user: UserId,
        seqs: &[Seq],
    ) -> Result<Vec<ReactionKey>, StoreError> {
        at_most(seqs.len(), REACTION_SEQS_MAX)?;
        let _permit = self.admit()?;
        let filter = of_users(conversation, &[user.get()], seqs);
        let find = self.reactions.find(filter).hint(Hint::Name("by_user".to_owned()));
        let found = find.max_time(self.options.command).await.map_err(read_failed)?;
        all(found, |row| Ok(reaction(row)?.key)).await
    }

    async fn reactions_of(&self, user: UserId, limit: usize) -> Result<Vec<OwnedReaction>, StoreError> {
        let _permit = self.admit()?;
        let find = self.reactions.find(doc! { "_id.u": user.get() }).limit(count(limit));
        let find = find.sort(doc! { "_id.u": 1, "_id.c": 1, "_id.s": 1 });
        let find = find.hint(Hint::Name("by_user".to_owned())).max_time(self.options.command);
        let owned = |row: &RawDocument| {
            let id = row.get_document("_id").map_err(|_| malformed("_id"))?;
            Ok(OwnedReaction { conversation: conversation_in(id)?, key: reaction(row)?.key })
        };
        all(find.await.map_err(read_failed)?, owned).await
    }
}

impl Mongo {
    async fn try_reactions(
        &self,
        key: DocumentKey,
        changes: &[ReactionChange],
    ) -> Result<ChangedReactions, Failure> {
        let mut session = self.begin_transaction().await?;
        let made = Box::pin(self.reaction_steps(key, changes, &mut session)).await;
        self.end_transaction(session, made).await
    }

    async fn reaction_steps(
        &self,
        key: DocumentKey,
        changes: &[ReactionChange],
        session: &mut ClientSession,
    ) -> Result<ChangedReactions, Failure> {
        let decided = self.reaction_state(key, changes, session).await?.decide(changes);
        if decided.changes() {
            self.write_reactions(key, &decided, session).await?;
        }
        Ok(decided.written())
    }

    async fn reaction_state(
        &self,
        key: DocumentKey,
        changes: &[ReactionChange],
        session: &mut ClientSession,
    ) -> Result<ReactionState, Failure> {
        let id = document_id(key.conversation, key.document);
        let find = self.reaction_summaries.find_one(doc! { "_id": id }).max_time(self.options.command);
        let stored = find.session(&mut *session).await.map_err(before_commit)?;
        let stored = stored.map(|found| summary(&found)).transpose().map_err(Failure::Final)?;
        let (seqs, users): (BTreeSet<Seq>, BTreeSet<UserId>) =
            changes.iter().map(ReactionChange::pair).unzip();
        let seqs: Vec<Seq> = seqs.into_iter().collect();
        let users: Vec<i64> = users.into_iter().map(UserId::get).collect();
        let find = self.reactions.find(of_users(key.conversation, &users, &seqs));
        let find = find.hint(Hint::Name("by_user".to_owned())).max_time(self.options.command);
        let mut rows = find.session(&mut *session).await.map_err(before_commit)?;
        let mut own = BTreeMap::new();
        while rows.advance(session).await.map_err(before_commit)? {
            let row = reaction(rows.current()).map_err(Failure::Final)?;
            own.insert(row.key, row.at);
        }
        let open = self.open_messages(key, session).await?;
        Ok(ReactionState { summary: stored.unwrap_or(ReactionSummary::absent(key)), own, open })
    }

    /// The numbers of a document's messages that have their content.
    async fn open_messages(
        &self,
        key: DocumentKey,
        session: &mut ClientSession,
    ) -> Result<BTreeSet<Seq>, Failure> {
        let find = self.messages.find_one(doc! { "_id": document_id(key.conversation, key.document) });
        let find = find.projection(doc! { "m.r": 1 }).max_time(self.options.command);
        let Some(found) = find.session(session).await.map_err(before_commit)? else {
            return Ok(BTreeSet::new());
        };
        let messages = found.get_array("m").map_err(|_| Failure::Final(malformed("m")))?;
        let is_open = |message: Option<&RawDocument>| message.is_some_and(|m| matches!(m.get("r"), Ok(None)));
        let messages = (key.first()..).zip(messages);
        let open =
            messages.filter(|(_, message)| is_open(message.as_ref().ok().and_then(|m| m.as_document())));
        Ok(open.map(|(seq, _)| seq).collect())
    }

    async fn write_reactions(
        &self,
        key: DocumentKey,
        decided: &DecidedReactions,
        session: &mut ClientSession,
    ) -> Result<(), Failure> {
        self.put_summary(&decided.summary, session).await?;
        if !decided.removed.is_empty() {
            let ids = decided.removed.iter().map(|removed| row_id(key.conversation, removed));
            let removed = self.reactions.delete_many(doc! { "_id": { "$in": ids.collect::<Vec<_>>() } });
            removed.session(&mut *session).await.map_err(before_commit)?;
        }
        if !decided.added.is_empty() {
            let row = |Reaction { key: added, at }: &Reaction| {
                let ReactionKey { seq, user, kind } = added;
                let id = rawdoc! {
                    "c": key.conversation.to_string(), "s": *seq, "u": user.get(), "k": kind.as_str(),
                };
                rawdoc! { "_id": id, "t": at.0 }
            };
            let rows: Vec<_> = decided.added.iter().map(row).collect();
            self.reactions.insert_many(rows).session(session).await.map_err(before_commit)?;
        }
        Ok(())
    }

    /// Writes a summary whose version was one lower when the transaction read it.
    async fn put_summary(
        &self,
        summary: &ReactionSummary,
        session: &mut ClientSession,
    ) -> Result<(), Failure> {
        let id = document_id(summary.key.conversation, summary.key.document);
        let (nonce, counts): (i64, Bson) = (rand::random(), counts(summary));
        if summary.version == Version::FIRST {
            let new = doc! { "_id": id, "v": 1_i64, "b": counts, "w": nonce };
            let new = RawDocumentBuf::try_from(&new).map_err(|_| Failure::Final(malformed(SUMMARIES)))?;
            let insert = self.reaction_summaries.insert_one(new).session(session);
            return insert.await.map(drop).map_err(before_commit);
        }
        let update = doc! { "$set": { "b": counts, "u": nonce }, "$inc": { "v": 1_i64 } };
        let update = self.reaction_summaries.update_one(doc! { "_id": id }, update).session(session);
        update.await.map(drop).map_err(before_commit)
    }

    /// Removes all reactions to these messages of one document, within a transaction that removes their
    /// content. Another transaction that adds any collides with it.
    pub(super) async fn end_reactions(
        &self,
        key: DocumentKey,
        seqs: &[Seq],
        session: &mut ClientSession,
    ) -> Result<(), Failure> {
        let Some(after) = self.lock_summary(key, session).await?.without(seqs) else { return Ok(()) };
        let id = document_id(key.conversation, key.document);
        let update = doc! { "$set": { "b": counts(&after), "u": rand::random::<i64>() } };
        let update = self.reaction_summaries.update_one(doc! { "_id": id }, update);
        update.session(&mut *session).await.map_err(before_commit)?;
        self.remove_rows(key.conversation, seqs, session).await
    }

    /// Removes all reactions to a document's messages, and their summary, within a transaction that removes
    /// the document.
    pub(super) async fn remove_reactions(
        &self,
        key: DocumentKey,
        session: &mut ClientSession,
    ) -> Result<(), Failure> {
        let seqs: Vec<Seq> = (key.first()..key.first() + DOCUMENT).collect();
        let has_any = self.lock_summary(key, session).await?.without(&seqs).is_some();
        let id = document_id(key.conversation, key.document);
        let remove = self.reaction_summaries.delete_one(doc! { "_id": id });
        remove.session(&mut *session).await.map_err(before_commit)?;
        if has_any { self.remove_rows(key.conversation, &seqs, session).await } else { Ok(()) }
    }

    async fn remove_rows(
        &self,
        conversation: ConversationId,
        seqs: &[Seq],
        session: &mut ClientSession,
    ) -> Result<(), Failure> {
        let filter = doc! { "_id.c": conversation.to_string(), "_id.s": { "$in": seqs } };
        let remove = self.reactions.delete_many(filter).hint(Hint::Name("by_kind".to_owned()));
        remove.session(session).await.map(drop).map_err(before_commit)
    }

    /// Writes a document's summary without a change of its counts, and returns it.
    async fn lock_summary(
        &self,
        key: DocumentKey,
        session: &mut ClientSession,
    ) -> Result<ReactionSummary, Failure> {
        let (id, nonce) = (document_id(key.conversation, key.document), rand::random::<i64>());
        let update = doc! { "$inc": { "v": 1_i64 }, "$set": { "u": nonce }, "$setOnInsert": { "w": nonce } };
        let lock = self.reaction_summaries.find_one_and_update(doc! { "_id": id }, update).upsert(true);
        let lock = lock.return_document(ReturnDocument::After).max_time(self.options.command);
        let found = lock.session(session).await.map_err(before_commit)?;
        let found = found.ok_or_else(|| Failure::Final(malformed(SUMMARIES)))?;
        summary(&found).map_err(Failure::Final)
    }
}

/// The rows of these users for these messages, and perhaps others between them.
fn of_users(conversation: ConversationId, users: &[i64], seqs: &[Seq]) -> Document {
    doc! { "_id.u": { "$in": users }, "_id.c": conversation.to_string(), "_id.s": { "$in": seqs } }
}

fn row_id(conversation: ConversationId, key: &ReactionKey) -> Document {
    doc! { "c": conversation.to_string(), "s": key.seq, "u": key.user.get(), "k": key.kind.as_str() }
}

fn counts(summary: &ReactionSummary) -> Bson {
    Binary { subtype: BinarySubtype::Generic, bytes: summary.pack() }.into()
}

fn summary(found: &RawDocument) -> Result<ReactionSummary, StoreError> {
    let id = found.get_document("_id").map_err(|_| malformed("_id"))?;
    let document = number_in(id, "d")?.ok_or_else(|| malformed("d"))?;
    let key = DocumentKey { conversation: conversation_in(id)?, document };
    let version = number_in(found, "v")?.and_then(Version::new).ok_or_else(|| malformed("v"))?;
    match found.get("b").map_err(|_| malformed("b"))? {
        None => Ok(ReactionSummary::empty(key, version)),
        Some(packed) => {
            let packed = packed.as_binary().ok_or_else(|| malformed("b"))?;
            ReactionSummary::unpack(key, version, packed.bytes).ok_or_else(|| malformed("b"))
        }
    }
}

fn reaction(row: &RawDocument) -> Result<Reaction, StoreError> {
    let id = row.get_document("_id").map_err(|_| malformed("_id"))?;
    let number = |field| number_in(id, field)?.ok_or_else(|| malformed(field));
    let kind: &str = id.get_str("k").map_err(|_| malformed("k"))?;
    let kind: ReactionKind = kind.parse().map_err(|_| malformed("k"))?;
    let user = UserId::new(number("u")?).map_err(|_| malformed("u"))?;
    let at: Timestamp = moment(row.get("t").ok().flatten().ok_or_else(|| malformed("t"))?, "t")?;
    Ok(Reaction { key: ReactionKey { seq: number("s")?, user, kind }, at })
}

fn conversation_in(id: &RawDocument) -> Result<ConversationId, StoreError> {
    let text = id.get_str("c").map_err(|_| malformed("c"))?;
    ConversationId::stored(text).map_err(|_| malformed("c"))
}
