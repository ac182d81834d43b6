//! Users' dialogs; see `row.rs` for the documents and `mark.rs` for read marks.

mod mark;
pub(super) mod row;

use async_trait::async_trait;
use kith_store::{
    Applied, BATCH_MAX, ConversationId, Dialog, DialogKey, DialogList, DialogMark, DialogPatch,
    DialogPosition, DialogStore, MARKS_AT_ONCE, MarkBase, Outcome, Seq, StoreError, Timestamp, UserId,
    Version, Write, at_most,
};
use mongodb::{
    ClientSession,
    bson::{Bson, Document, RawDocumentBuf, doc},
    error::Error,
    options::{Hint, ReadConcern, ReturnDocument},
};

use super::{
    database::Mongo,
    document::{count, number_in},
    error::{is_duplicate, malformed, read_failed, write_failed},
    record::all,
    transaction::before_commit,
    write::{AppliedWrite, Failure, Retries},
};
use mark::has_too_many_ranges;
use row::{DialogUpdate, dialog, id, key_in};

/// The index for a user's lists.
const RECENT: &str = "recent";

#[async_trait]
impl DialogStore for Mongo {
    async fn dialogs(&self, keys: &[DialogKey]) -> Result<Vec<Dialog>, StoreError> {
        let _permit = self.admit()?;
        self.read_dialogs(keys).await?.into_iter().map(|(_, dialog)| dialog).collect()
    }

    async fn dialog_list(
        &self,
        user: UserId,
        list: DialogList,
        after: Option<DialogPosition>,
        limit: usize,
    ) -> Result<Vec<Dialog>, StoreError> {
        let _permit = self.admit()?;
        let Some(DialogPosition { day, conversation }) = after else {
            return self.dialogs_of(list_filter(user, list, None), limit).await;
        };
        // Two ranges of the index instead of one condition, so that no entry before the place is read.
        let mut of_day = list_filter(user, list, Some(conversation));
        of_day.insert("day", day);
        let mut found = self.dialogs_of(of_day, limit).await?;
        let mut earlier = list_filter(user, list, None);
        earlier.insert("day", doc! { "$lt": day });
        found.extend(self.dialogs_of(earlier, limit - found.len()).await?);
        Ok(found)
    }

    async fn dialog_conversations(
        &self,
        user: UserId,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<ConversationId>, StoreError> {
        let _permit = self.admit()?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        // The condition is a range of the index on `_id`, since MongoDB compares subdocuments field by field.
        let after = after.map_or(Bson::MinKey, |after| after.to_string().into());
        let from = doc! { "u": user.get(), "c": after };
        let to = doc! { "u": user.get(), "c": Bson::MaxKey };
        let find =
            self.dialogs.find(doc! { "_id": { "$gt": from, "$lt": to } }).projection(doc! { "_id": 1 });
        let find = find.sort(doc! { "_id": 1 }).limit(count(limit)).max_time(self.options.command);
        all(find.await.map_err(read_failed)?, |found| Ok(key_in(found)?.conversation)).await
    }

    async fn mark_dialogs(
        &self,
        marks: &[DialogMark],
        now: Timestamp,
    ) -> Result<Vec<Result<MarkBase, StoreError>>, StoreError> {
        let _permit = self.admit()?;
        if marks.len() > MARKS_AT_ONCE || marks.iter().any(has_too_many_ranges) {
            return Err(StoreError::Overloaded);
        }
        Box::pin(self.make_marks(marks, now)).await
    }

    async fn change_dialog(
        &self,
        key: DialogKey,
        patch: DialogPatch,
        write: Write,
    ) -> Result<Applied<Dialog>, StoreError> {
        let _permit = self.admit()?;
        let done = Box::pin(self.change_settings(&SettingsChange { key, patch, write })).await?;
        Ok(Applied { record: dialog(&done.document)?, replayed: done.replayed })
    }

    async fn make_dialogs(&self, keys: &[DialogKey], now: Timestamp) -> Result<(), StoreError> {
        let _permit = self.admit()?;
        at_most(keys.len(), BATCH_MAX)?;
        let nonce: i64 = rand::random();
        let day = Dialog::day_of(now);
        let made = doc! { "v": Version::FIRST.get(), "sv": 0_i64, "read": 0_i64, "day": day, "w": nonce };
        let statement = |key: &DialogKey| {
            doc! { "q": { "_id": id(*key) }, "u": { "$setOnInsert": made.clone() }, "upsert": true }
        };
        // A refused dialog exists already.
        self.update_dialogs(keys.iter().map(statement).collect()).await.map(drop)
    }

    async fn reduce_dialogs(
        &self,
        user: UserId,
        ends: &[(ConversationId, Seq)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let _permit = self.admit()?;
        at_most(ends.len(), BATCH_MAX)?;
        let reduce = |(conversation, end): &(ConversationId, Seq)| {
            reduce_statement(DialogKey { user, conversation: *conversation }, *end, now)
        };
        self.update_dialogs(ends.iter().map(reduce).collect()).await.map(drop)
    }
}

/// A change of settings.
struct SettingsChange {
    key: DialogKey,
    patch: DialogPatch,
    write: Write,
}

impl Mongo {
    /// Reads dialogs; returns an error for each that cannot be decoded.
    pub(super) async fn read_dialogs(
        &self,
        keys: &[DialogKey],
    ) -> Result<Vec<(DialogKey, Result<Dialog, StoreError>)>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Document> = keys.iter().copied().map(id).collect();
        let filter = doc! { "_id": { "$in": ids } };
        let cursor = self.cursor(&self.dialogs, filter, None, keys.len(), ReadConcern::majority()).await?;
        all(cursor, |found| Ok((key_in(found)?, dialog(found)))).await
    }

    async fn dialogs_of(&self, filter: Document, limit: usize) -> Result<Vec<Dialog>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let find = self.dialogs.find(filter).sort(doc! { "day": -1, "_id.c": -1 }).limit(count(limit));
        let find = find.hint(Hint::Name(RECENT.to_owned())).max_time(self.options.command);
        // Without it, the first reply has 101 dialogs at most.
        let find = find.batch_size(u32::try_from(limit).unwrap_or(u32::MAX));
        all(find.await.map_err(read_failed)?, dialog).await
    }

    /// Makes a change of settings, or does nothing.
    async fn change_settings(&self, change: &SettingsChange) -> Result<AppliedWrite, StoreError> {
        let mut retries = Retries::within(self.options.retry);
        loop {
            let failure = match self.try_settings(change).await {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            let error = match self.settings_refused(change, failure).await {
                Ok(error) => error,
                Err(error) => return self.replayed_settings(change, error).await,
            };
            if !retries.again().await {
                return Err(error);
            }
        }
    }

    async fn try_settings(&self, change: &SettingsChange) -> Result<AppliedWrite, Failure> {
        if change.write.request.is_some() {
            let mut session = self.begin_transaction().await?;
            let made = Box::pin(self.settings_steps(change, &mut session)).await;
            return self.end_transaction(session, made).await;
        }
        let document = self.put_settings(change, None).await.map_err(|error| match error {
            error if is_duplicate(&error) => Failure::Duplicate,
            error => Failure::Final(write_failed(error)),
        })?;
        document.map(|document| AppliedWrite { document, replayed: false }).ok_or(Failure::Unmatched)
    }

    async fn settings_steps(
        &self,
        change: &SettingsChange,
        session: &mut ClientSession,
    ) -> Result<AppliedWrite, Failure> {
        if let Some(done) = self.find_answer_in(&change.write, session).await? {
            return Ok(done);
        }
        let document = self.put_settings(change, Some(&mut *session)).await.map_err(|error| match error {
            error if is_duplicate(&error) => Failure::Duplicate,
            error => before_commit(error),
        })?;
        self.keep_answer_in(&change.write, document.ok_or(Failure::Unmatched)?, session).await
    }

    /// Sends the one command that changes the dialog, and returns the document that it leaves; `None`: the
    /// settings version differs. A dialog that does not exist has version 0: the command makes it.
    async fn put_settings(
        &self,
        SettingsChange { key, patch, write }: &SettingsChange,
        session: Option<&mut ClientSession>,
    ) -> Result<Option<RawDocumentBuf>, Error> {
        let mut filter = doc! { "_id": id(*key) };
        let makes = write.expected.is_none_or(|expected| expected == Version::NONE);
        match write.expected {
            // Null matches an absent field, in a document that was made by hand.
            Some(Version::NONE) => drop(filter.insert("sv", doc! { "$in": [0_i64, Bson::Null] })),
            Some(expected) => drop(filter.insert("sv", expected.get())),
            None => {}
        }
        let action = self
            .dialogs
            .find_one_and_update(filter, DialogUpdate::settings(patch, write.now).into_document())
            .upsert(makes)
            .return_document(ReturnDocument::After)
            .max_time(self.options.command);
        match session {
            Some(session) => action.session(session).await,
            None => action.await,
        }
    }

    /// Reads why an attempt had no effect. Returns the error that the write has if there is no further
    /// attempt.
    ///
    /// # Errors
    /// If another attempt cannot succeed.
    async fn settings_refused(
        &self,
        change: &SettingsChange,
        failure: Failure,
    ) -> Result<StoreError, StoreError> {
        match failure {
            Failure::Final(error) => return Err(error),
            Failure::Collision(error) => return Ok(error),
            Failure::Unmatched | Failure::Duplicate => {}
        }
        let found = self.find_one(&self.dialogs, doc! { "_id": id(change.key) }).await?;
        let current = found.map(|found| number_in(&found, "sv")).transpose()?.flatten().unwrap_or_default();
        let current = Version::new(current).ok_or_else(|| malformed("sv"))?;
        if change.write.expected.is_some_and(|expected| expected != current) {
            return Err(StoreError::Conflict { current });
        }
        Ok(StoreError::Overloaded)
    }

    /// A retry of this call may have committed since the attempt looked for it. An unavailable server cannot
    /// report it.
    async fn replayed_settings(
        &self,
        change: &SettingsChange,
        error: StoreError,
    ) -> Result<AppliedWrite, StoreError> {
        let may_be =
            !matches!(error, StoreError::Unavailable { .. }) && error.outcome() == Outcome::NotApplied;
        let Some(request) = change.write.request.as_ref().filter(|_| may_be) else {
            return Err(error);
        };
        let document = self.find_answer(request, change.write.now).await?.ok_or(error)?;
        Ok(AppliedWrite { document, replayed: true })
    }
}

/// Matches a list's dialogs, only those about conversations below `before`. Texts of direct conversations,
/// and no others, begin with d.
fn list_filter(user: UserId, list: DialogList, before: Option<ConversationId>) -> Document {
    let mut conversations = Document::new();
    if list == DialogList::Direct {
        conversations.insert("$gte", "d");
        conversations.insert("$lt", "e");
    }
    if let Some(before) = before {
        // In a list of direct conversations, the place is a direct conversation.
        conversations.insert("$lt", before.to_string());
    }
    let mut filter = doc! { "_id.u": user.get() };
    if !conversations.is_empty() {
        filter.insert("_id.c", conversations);
    }
    filter
}

/// Reduces a deleted user's dialog with [`Dialog::reduced`], if necessary.
fn reduce_statement(key: DialogKey, end: Seq, now: Timestamp) -> Document {
    let min_seq = end.saturating_add(1);
    let settings = ["max", "pin", "dnd", "mark", "ext"];
    let mut differs: Vec<Document> =
        settings.iter().map(|field| doc! { *field: { "$exists": true } }).collect();
    differs.push(doc! { "min": { "$not": { "$gte": min_seq } } });
    differs.push(doc! { "hide": { "$not": { "$gte": end } } });
    let mut update = DialogUpdate::new(now);
    update.inc.insert("sv", 1_i64);
    update.max.extend(doc! { "min": min_seq, "hide": end });
    update.unset.extend(settings);
    doc! { "q": { "_id": id(key), "$or": differs }, "u": update.into_document() }
}
