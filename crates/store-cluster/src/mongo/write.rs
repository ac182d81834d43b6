//! How every record write runs: one command, or one transaction, retried on conflicts.
//!
//! Nothing is checked before it is written. The unique indexes and the command's filter decide. Only if they
//! refuse, a read finds the reason.

use std::time::Duration;

use kith_store::{Outcome, ParamsPatch, SecretChange, StoreError, Stored, Timestamp, Version, Write};
use mongodb::{
    ClientSession,
    bson::{Bson, Document, RawDocument, RawDocumentBuf, doc},
    error::Error,
    options::ReturnDocument,
};
use tokio::time::Instant;

use super::{
    database::Mongo,
    document::{number_in, room_for},
    error::{is_duplicate, malformed, write_failed},
    record::{Record, is_stub},
};

const BACKOFF_FIRST: Duration = Duration::from_millis(1);
const BACKOFF_MAX: Duration = Duration::from_millis(64);
/// The field in a stub under whose id nothing may be created yet.
pub(super) const ID_HELD: &str = "id_held";
/// The most attempts for one write.
const TRIES_MAX: u32 = 256;

/// How a write affects the record.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Creates it from these fields, without id and version.
    Create(Document),
    /// Changes fields in place.
    Update {
        /// The operand for `$set`.
        set: Document,
        /// The operand for `$unset`.
        unset: Document,
        /// The patch, to check whether the result fits.
        params: ParamsPatch,
        /// Further operators, such as `$max`.
        more: Document,
    },
    /// Leaves a stub: `_id`, `v`, these record fields and [`Record::KEPT`], as they are, and these others.
    Delete {
        /// Fields that stay.
        keep: &'static [&'static str],
        /// The operand for `$set`, besides `deleted`.
        set: Document,
        /// Further operators, such as `$max`.
        more: Document,
    },
}

/// One write to one record, with everything that must happen in the same commit.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) id: i64,
    pub(super) change: Change,
    pub(super) secrets: SecretChange,
    pub(super) write: Write,
}

impl Order {
    /// Whether it touches more than the record's document.
    fn spans_documents(&self) -> bool {
        let deletes = matches!(self.change, Change::Delete { .. });
        deletes || self.write.request.is_some() || !self.secrets.is_empty()
    }

    fn live_filter(&self) -> Document {
        let mut filter = doc! { "_id": self.id, "deleted": { "$ne": true } };
        if let Some(expected) = self.write.expected {
            filter.insert("v", expected.get());
        }
        filter
    }
}

/// A write that was applied.
#[derive(Debug)]
pub(super) struct AppliedWrite {
    /// The record, or its stub, after the write.
    pub(super) document: RawDocumentBuf,
    /// Whether an earlier write with the same request id made the change.
    pub(super) replayed: bool,
}

/// Why an attempt had no effect.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another attempt cannot succeed.
    Final(StoreError),
    /// It collided with another write, or lost the server before its commit.
    Collision(StoreError),
    /// No document matched the filter.
    Unmatched,
    /// A unique index refused it.
    Duplicate,
}

/// The next attempt.
enum NextTry {
    Return(AppliedWrite),
    Try(Creation, StoreError),
}

/// How a record is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Creation {
    /// Nothing is stored under the id.
    Fresh,
    /// A deleted record's stub exists.
    OverStub,
}

impl Mongo {
    /// Makes `order`, or nothing.
    pub(super) async fn write<R: Record>(&self, order: &Order) -> Result<AppliedWrite, StoreError> {
        // Distinguishes this call's insert, sent twice by the driver, from another call's insert.
        let nonce: i64 = rand::random();
        let (mut creation, mut retries) = (Creation::Fresh, Retries::within(self.options.retry));
        loop {
            let failure = match self.try_once::<R>(order, creation, nonce).await {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            let (next, error) = match self.next_try::<R>(order, failure, creation, nonce).await? {
                NextTry::Return(done) => return Ok(done),
                NextTry::Try(next, error) => (next, error),
            };
            if !retries.again().await {
                return Err(error);
            }
            tracing::debug!(tries = retries.tries, %error, "a write is tried again");
            creation = next;
        }
    }

    async fn try_once<R: Record>(
        &self,
        order: &Order,
        creation: Creation,
        nonce: i64,
    ) -> Result<AppliedWrite, Failure> {
        if order.spans_documents() {
            return Box::pin(self.in_transaction::<R>(order, creation, nonce)).await;
        }
        let document =
            self.apply::<R>(order, creation, nonce, None).await.map_err(|refusal| match refusal {
                Refusal::ByServer(error) if is_duplicate(&error) => Failure::Duplicate,
                Refusal::ByServer(error) => Failure::Final(write_failed(*error)),
                Refusal::Unmatched => Failure::Unmatched,
                Refusal::Malformed(error) => Failure::Final(error),
            })?;
        Ok(AppliedWrite { document, replayed: false })
    }

    /// Sends the one command that changes the record, and returns the document that it leaves.
    pub(super) async fn apply<R: Record>(
        &self,
        order: &Order,
        creation: Creation,
        nonce: i64,
        session: Option<&mut ClientSession>,
    ) -> Result<RawDocumentBuf, Refusal> {
        match (&order.change, creation) {
            (Change::Create(fields), Creation::Fresh) => {
                let document = created(order.id, fields, nonce)?;
                let insert = R::collection(self).insert_one(&document);
                match session {
                    Some(session) => insert.session(session).await,
                    None => insert.await,
                }?;
                Ok(document)
            }
            (Change::Create(fields), Creation::OverStub) => {
                let mut set = fields.clone();
                set.insert("w", nonce);
                let stub = doc! { "_id": order.id, "deleted": true, ID_HELD: Bson::Null };
                let state = NewState { set, keep: &[], more: Document::new(), nonce };
                self.rewrite::<R>(stub, state, session).await?.ok_or(Refusal::Unmatched)
            }
            (Change::Delete { keep, set, more }, _) => {
                let mut set = set.clone();
                set.insert("deleted", true);
                let state = NewState { set, keep, more: more.clone(), nonce };
                self.rewrite::<R>(order.live_filter(), state, session).await?.ok_or(Refusal::Unmatched)
            }
            (Change::Update { set, unset, params, more }, _) => {
                let mut filter = order.live_filter();
                if let Some(room) = room_for(params) {
                    filter.insert("$expr", room);
                }
                let update = modification(set.clone(), unset.clone(), more.clone(), nonce);
                self.find_and_update::<R>(filter, update, session).await?.ok_or(Refusal::Unmatched)
            }
        }
    }

    /// Makes a record a stub, or a stub a record: removes all fields except those that are set or kept,
    /// whatever wrote them. Field by field: a document is never replaced, because the change feed could not
    /// see whether its version was raised.
    async fn rewrite<R: Record>(
        &self,
        mut filter: Document,
        NewState { set, keep, more, nonce }: NewState,
        mut session: Option<&mut ClientSession>,
    ) -> Result<Option<RawDocumentBuf>, Error> {
        let find = R::collection(self).find_one(filter.clone()).max_time(self.options.command);
        let before = match session.as_deref_mut() {
            Some(session) => find.session(session).await,
            None => find.await,
        };
        let Some(before) = before? else {
            return Ok(None);
        };
        let mut unset = Document::new();
        for field in before.iter() {
            let (name, value) = field?;
            match name.as_str() {
                // The change applies to the read state.
                "v" => drop(filter.insert("v", Bson::try_from(value)?)),
                "_id" | "w" | "u" => {}
                name if set.contains_key(name) || keep.contains(&name) || R::KEPT.contains(&name) => {}
                name if !names_a_path(name) => {}
                name => drop(unset.insert(name, "")),
            }
        }
        self.find_and_update::<R>(filter, modification(set, unset, more, nonce), session).await
    }

    async fn find_and_update<R: Record>(
        &self,
        filter: Document,
        update: Document,
        session: Option<&mut ClientSession>,
    ) -> Result<Option<RawDocumentBuf>, Error> {
        let action = R::collection(self)
            .find_one_and_update(filter, update)
            .return_document(ReturnDocument::After)
            .max_time(self.options.command);
        match session {
            Some(session) => action.session(session).await,
            None => action.await,
        }
    }

    /// Reads why an attempt had no effect, and returns whether another may succeed.
    async fn next_try<R: Record>(
        &self,
        order: &Order,
        failure: Failure,
        creation: Creation,
        nonce: i64,
    ) -> Result<NextTry, StoreError> {
        let verdict = match failure {
            Failure::Final(error) => Err(error),
            Failure::Collision(error) => Ok(NextTry::Try(Creation::Fresh, error)),
            Failure::Unmatched => self.unmatched::<R>(order).await,
            Failure::Duplicate if creation == Creation::Fresh => self.insert_refused::<R>(order, nonce).await,
            Failure::Duplicate => self.name_refused::<R>(order).await,
        };
        // A retry of this call may have committed since the attempt looked for it. An unavailable server does
        // not show it.
        match (verdict, &order.write.request) {
            (Err(error @ StoreError::Unavailable { .. }), _) => Err(error),
            (Err(error), Some(request)) if error.outcome() == Outcome::NotApplied => {
                match self.find_answer(request, order.write.now).await? {
                    Some(document) => Ok(NextTry::Return(AppliedWrite { document, replayed: true })),
                    None => Err(error),
                }
            }
            (verdict, _) => verdict,
        }
    }

    async fn unmatched<R: Record>(&self, order: &Order) -> Result<NextTry, StoreError> {
        let params = match &order.change {
            Change::Create(_) => return Ok(NextTry::Try(Creation::Fresh, StoreError::Overloaded)),
            Change::Update { params, .. } => Some(params),
            Change::Delete { .. } => None,
        };
        let Stored::Live(record) = self.one::<R>(order.id).await? else {
            return Err(StoreError::NotFound);
        };
        let current: Version = record.version();
        if order.write.expected.is_some_and(|expected| expected != current) {
            return Err(StoreError::Conflict { current });
        }
        if let Some(patch) = params.filter(|patch| room_for(patch).is_some()) {
            let mut changed = record.params().clone();
            changed.apply(patch);
            if !changed.fits() {
                return Err(StoreError::ParamsTooLarge);
            }
        }
        Ok(NextTry::Try(Creation::Fresh, StoreError::Overloaded))
    }

    /// The id may be taken, or the name; an update can only hit the name.
    async fn insert_refused<R: Record>(&self, order: &Order, nonce: i64) -> Result<NextTry, StoreError> {
        let Change::Create(_) = &order.change else {
            return self.name_refused::<R>(order).await;
        };
        let Some(holder) = self.find_one(R::collection(self), doc! { "_id": order.id }).await? else {
            return self.name_refused::<R>(order).await;
        };
        if let Some(done) = own_insert(order, &holder, nonce)? {
            return Ok(NextTry::Return(done));
        }
        if !is_stub(&holder)? {
            return Err(StoreError::IdTaken);
        }
        if number_in(&holder, ID_HELD)?.is_some() {
            return Err(StoreError::IdHeld);
        }
        // A kept name is kept for the id that had it: made again, the user may have it back.
        Ok(NextTry::Try(Creation::OverStub, StoreError::IdTaken))
    }

    /// A name is held by a living record, by a stub until some moment, or not any more.
    async fn name_refused<R: Record>(&self, order: &Order) -> Result<NextTry, StoreError> {
        let Some(name_key) = name_key(&order.change) else {
            return Ok(NextTry::Try(Creation::Fresh, StoreError::IdTaken));
        };
        let holder = self.find_one(R::collection(self), doc! { "name_key": name_key }).await?;
        let Some(holder) = holder else {
            return Ok(NextTry::Try(Creation::Fresh, StoreError::NameTaken));
        };
        let holder_id = number_in(&holder, "_id")?.ok_or_else(|| malformed("_id"))?;
        if holder_id == order.id {
            // A majority got it after the read by its id. It may be this call's insert.
            return Ok(NextTry::Try(Creation::Fresh, StoreError::IdTaken));
        }
        if !is_stub(&holder)? || kept_until(&holder)? > order.write.now.0 {
            return Err(StoreError::NameTaken);
        }
        self.release_name::<R>(holder_id, name_key, order.write.now).await?;
        Ok(NextTry::Try(Creation::Fresh, StoreError::NameTaken))
    }

    async fn release_name<R: Record>(
        &self,
        id: i64,
        name_key: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let filter =
            doc! { "_id": id, "deleted": true, "name_key": name_key, "name_free_at": { "$lte": now.0 } };
        let update = doc! { "$unset": { "name_key": "", "name_free_at": "" } };
        R::collection(self).update_one(filter, update).await.map(drop).map_err(|error| {
            // Whether the name was released or not, the write that wanted it has not happened.
            match write_failed(error) {
                StoreError::Unavailable { source, .. } => {
                    StoreError::Unavailable { outcome: Outcome::NotApplied, source }
                }
                other => other,
            }
        })
    }
}

/// The state that a stub or a record gets.
struct NewState {
    /// The operand for `$set`.
    set: Document,
    /// Fields that stay as they are, besides [`Record::KEPT`].
    keep: &'static [&'static str],
    /// Further operators.
    more: Document,
    /// See [`modification`].
    nonce: i64,
}

/// Why the command did not change the record.
#[derive(Debug)]
pub(super) enum Refusal {
    ByServer(Box<Error>),
    Unmatched,
    Malformed(StoreError),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::ByServer(Box::new(error))
    }
}

/// Counts the attempts for one write.
pub(super) struct Retries {
    give_up: Instant,
    tries: u32,
}

impl Retries {
    /// Begins with the first attempt. The last one begins within this time.
    pub(super) fn within(time: Duration) -> Self {
        Self { give_up: Instant::now() + time, tries: 0 }
    }

    /// Pauses before the next try. False: there is none.
    pub(super) async fn again(&mut self) -> bool {
        if self.tries >= TRIES_MAX || Instant::now() >= self.give_up {
            return false;
        }
        self.tries += 1;
        tokio::time::sleep(backoff(self.tries)).await;
        true
    }

    /// Pauses before the next try of a transaction that failed so.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn after(&mut self, failure: Failure) -> Result<(), StoreError> {
        let error = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Collision(error) => error,
            Failure::Unmatched | Failure::Duplicate => StoreError::Overloaded,
        };
        if self.again().await { Ok(()) } else { Err(error) }
    }
}

/// A pause that grows and is randomized, so that writers that collided do not collide again.
pub(super) fn backoff(tries: u32) -> Duration {
    let full = BACKOFF_FIRST.saturating_mul(1 << tries.min(6)).min(BACKOFF_MAX);
    full.mul_f64(rand::random_range(0.5..1.0))
}

fn created(id: i64, fields: &Document, nonce: i64) -> Result<RawDocumentBuf, Refusal> {
    let mut document = doc! { "_id": id, "v": Version::FIRST.get() };
    document.extend(fields.clone());
    document.insert("w", nonce);
    RawDocumentBuf::try_from(&document).map_err(|_| Refusal::Malformed(malformed("document")))
}

/// Sets and removes fields, and raises the version. The change feed takes an update that sets `v` and leaves
/// `u` as it was for a change by hand; `w` stays, for it identifies the insert.
fn modification(mut set: Document, unset: Document, mut more: Document, nonce: i64) -> Document {
    set.insert("u", nonce);
    let mut raised = doc! { "v": 1_i64 };
    if let Some(Bson::Document(others)) = more.remove("$inc") {
        raised.extend(others);
    }
    let mut update = doc! { "$set": set, "$inc": raised };
    update.extend(more);
    if !unset.is_empty() {
        update.insert("$unset", unset);
    }
    update
}

/// Whether a field with this name can be removed; each field that this program writes can be.
fn names_a_path(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('$') && !name.contains('.')
}

/// The insert by this very call, which the driver sent again after its first answer was lost.
fn own_insert(order: &Order, holder: &RawDocument, nonce: i64) -> Result<Option<AppliedWrite>, StoreError> {
    let Change::Create(fields) = &order.change else {
        return Ok(None);
    };
    if number_in(holder, "w")? != Some(nonce) {
        return Ok(None);
    }
    // Others may have changed the record since: this write's result is returned.
    let document = created(order.id, fields, nonce).map_err(|_| malformed("document"))?;
    Ok(Some(AppliedWrite { document, replayed: false }))
}

/// The time until which a stub keeps its name.
fn kept_until(stub: &RawDocument) -> Result<i64, StoreError> {
    Ok(number_in(stub, "name_free_at")?.unwrap_or(i64::MIN))
}

fn name_key(change: &Change) -> Option<&str> {
    match change {
        Change::Create(fields) | Change::Update { set: fields, .. } => fields.get_str("name_key").ok(),
        Change::Delete { .. } => None,
    }
}
