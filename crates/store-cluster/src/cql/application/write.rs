//! Changes to applications. Changes for one receiver are decided one after the other on this node, and each
//! is made by one conditional write. It is noted before, and the note is ended when everything that follows
//! is done.

use kith_store::{
    Application, ApplicationChange, ApplicationEffect, ApplicationKey, ApplicationTransition, Applied,
    Outcome, Receiver, StoreError, Write,
};

use super::row::{NoteKey, PENDING, PENDING_SERIAL, SeenRequests, pending_part};
use crate::cql::{
    client::{
        conditional::{AttemptError, FailedAttempts},
        error::as_outcome,
        session::{Statement, values},
    },
    request_key::RequestKey,
    stores::Cql,
};

const PUT_ANSWER: Statement = Statement::conditional(
    "INSERT INTO %k.applications (side, receiver, kind, place, origin, request, reply) \
     VALUES (?, ?, 2, ?, ?, ?, ?) USING TTL 86400",
);
const ANSWER: Statement = Statement::serial(
    "SELECT origin AS begun, request, reply FROM %k.applications \
     WHERE side = ? AND receiver = ? AND kind = 2 AND place = ?",
);

/// A change to be made.
struct RequestedChange<'a> {
    receiver: Receiver,
    change: &'a ApplicationChange,
    write: &'a Write,
    /// Its request's key, if it has any.
    key: Option<RequestKey<'a>>,
    /// The note, and its application; all attempts use one note.
    note: Option<(ApplicationKey, NoteKey)>,
}

/// The decision about a change.
#[expect(clippy::large_enum_variant, reason = "one at a time, and at once taken apart")]
enum ChangeDecision {
    /// Nothing is to be written.
    Answer(Applied<Application>),
    /// This is to be written, on condition that the pending counts are unchanged.
    Write(Box<DecidedApplication>),
}

/// A decision that is to be written.
struct DecidedApplication {
    before: SeenRequests,
    verdict: ApplicationTransition,
    /// The note for the application's last change.
    last_note: Option<NoteKey>,
}

impl Cql {
    /// Makes a change, for a request at most once.
    pub(super) async fn apply_for_request(
        &self,
        receiver: Receiver,
        change: ApplicationChange,
        write: Write,
    ) -> Result<Applied<Application>, StoreError> {
        let requested = |key| RequestedChange { receiver, change: &change, write: &write, key, note: None };
        self.change_once(&write, |key| self.change_serialized(requested(key))).await
    }

    /// Decides a change and makes it, whatever is changed meanwhile.
    async fn change_serialized(
        &self,
        mut requested: RequestedChange<'_>,
    ) -> Result<Applied<Application>, StoreError> {
        let partition = partition(requested.receiver);
        let _lock = match self.client.locks.try_lock(partition) {
            Some(lock) => lock,
            None => {
                drop(self.client.locks.lock(partition).await);
                // After a waiter was decided, the others get its decision: for that they need not wait for
                // each other.
                if let ChangeDecision::Answer(applied) = self.decide_change(&requested).await? {
                    return Ok(applied);
                }
                self.client.locks.lock(partition).await
            }
        };
        let mut failed = FailedAttempts::default();
        loop {
            match self.try_change(&mut requested).await {
                Ok(applied) => return Ok(applied),
                Err(error) => failed.retry(error, requested.key.is_some()).await?,
            }
        }
    }

    /// Decides from what is stored, and writes the decision.
    async fn try_change(
        &self,
        requested: &mut RequestedChange<'_>,
    ) -> Result<Applied<Application>, AttemptError> {
        let DecidedApplication { before, verdict, last_note } = match self.decide_change(requested).await? {
            ChangeDecision::Answer(applied) => return Ok(applied),
            ChangeDecision::Write(decided) => *decided,
        };
        let note = self.note_change(requested, &verdict, last_note).await;
        let note = note.map_err(|error| as_outcome(error, Outcome::NotApplied))?;
        self.put_verdict(requested, before, &verdict, note).await?;
        if verdict.changed {
            self.fail_point("application_written")?;
            let completed = self.complete_change(&verdict, note).await;
            completed.map_err(|error| as_outcome(error, Outcome::Unknown))?;
        }
        Ok(Applied { record: verdict.application, replayed: false })
    }

    /// Decides from what is stored.
    async fn decide_change(&self, requested: &RequestedChange<'_>) -> Result<ChangeDecision, StoreError> {
        let before = self.read_pending(&PENDING, requested.receiver).await?;
        let found = self.target(requested.receiver, requested.change).await?;
        if let Some(key) = requested.key {
            let (side, id) = requested.receiver.numbers();
            let answers = self.client.records(&ANSWER, values![side, id, key.position().0]).await?;
            if let Some((record, _)) = key.answer::<Application>(&answers)? {
                let written = self.rewrite_lists(record.key()).await;
                written.map_err(|error| as_outcome(error, Outcome::Unknown))?;
                return Ok(ChangeDecision::Answer(Applied { record, replayed: true }));
            }
        }
        let last_note = found.as_ref().map(|seen| seen.note);
        let found = found.map(|seen| seen.application);
        let verdict = before.pending.change(found, requested.change, requested.write.now)?;
        if !verdict.changed && requested.key.is_none() {
            return Ok(ChangeDecision::Answer(Applied { record: verdict.application, replayed: false }));
        }
        Ok(ChangeDecision::Write(Box::new(DecidedApplication { before, verdict, last_note })))
    }

    /// Notes a change before it is made. A change that completes an effect uses the acceptance's note.
    async fn note_change(
        &self,
        requested: &mut RequestedChange<'_>,
        verdict: &ApplicationTransition,
        last_note: Option<NoteKey>,
    ) -> Result<NoteKey, StoreError> {
        let application = &verdict.application;
        let settled = last_note.filter(|_| matches!(requested.change, ApplicationChange::RecordEffect(..)));
        let before = requested.note.filter(|(key, _)| *key == application.key()).map(|(_, note)| note);
        if let Some(note) = settled.or(before) {
            return Ok(note);
        }
        let note = NoteKey::now(self);
        if !verdict.changed {
            return Ok(note);
        }
        requested.note = Some((application.key(), note));
        self.write_note(application.key(), note).await?;
        if let ApplicationChange::Apply(_) = requested.change {
            self.note_expiry(application).await?;
        }
        Ok(note)
    }

    /// Writes what was decided.
    async fn put_verdict(
        &self,
        requested: &RequestedChange<'_>,
        before: SeenRequests,
        verdict: &ApplicationTransition,
        note: NoteKey,
    ) -> Result<(), AttemptError> {
        let (side, id) = requested.receiver.numbers();
        let writer = if verdict.changed { rand::random() } else { before.writer };
        let after = SeenRequests { pending: verdict.pending, writer };
        let mut parts = vec![pending_part(requested.receiver, before.pending.version, after)];
        for row in verdict.rows() {
            parts.push(self.application_part(row, note)?);
        }
        if verdict.changed && matches!(requested.change, ApplicationChange::Apply(_)) {
            parts.push(self.slot_part(&verdict.application));
        }
        if let Some(key) = requested.key {
            parts.push(key.answer_part(&PUT_ANSWER, values![side, id], &verdict.application)?);
        }
        if !verdict.changed {
            return self.client.write_answer(parts).await;
        }
        let found = async { Ok(self.read_pending(&PENDING_SERIAL, requested.receiver).await?.head()) };
        self.client.write_head(parts, after.head(), found).await
    }

    /// Does what follows a change, and ends its note if nothing is pending.
    async fn complete_change(
        &self,
        verdict: &ApplicationTransition,
        note: NoteKey,
    ) -> Result<(), StoreError> {
        for row in verdict.rows() {
            self.write_lists(row).await?;
        }
        let application = &verdict.application;
        match application.effect {
            ApplicationEffect::Outstanding => Ok(()),
            _ => self.end_note(application.key(), note).await,
        }
    }
}

/// The key for the queue in which a partition's changes wait.
const fn partition(receiver: Receiver) -> i64 {
    match receiver {
        Receiver::User(user) => user.get(),
        Receiver::Group(group) => !group.get(),
    }
}
