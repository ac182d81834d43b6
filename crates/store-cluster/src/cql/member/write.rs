//! Changes to members. The changes that wait on this node for a group are decided one after the other, and
//! written by one conditional write.
//!
//! The changed users are noted in the change log before the write, and once more, with their versions, after
//! the follow-up (these users' groups). If the node dies in between, the sweep finds the note without a
//! version and completes the follow-up.

use std::sync::Arc;

use kith_store::{
    Applied, Bans, ChangeContext, GroupId, MemberChange, MembersUpdated, Outcome, StoreError, UserId, Write,
};
use scylla::statement::batch::BatchType;
use tokio::task::JoinHandle;

use super::{
    batch::Draft,
    queue::{ChangeResult, PendingChange, await_answer},
    roster::SeenRoster,
};
use crate::cql::{
    change_log::{ChangeLogEntry, ChangeSubject},
    client::{
        conditional::{AttemptError, FailedAttempts},
        error::{as_outcome, not_connected},
    },
    stores::Cql,
};

/// A change's attempts share a note that is not older than this, in microseconds. The final note then
/// replaces it, and no sweep has to check a note whose attempt had no effect.
const NOTED_AT_ONCE: i64 = 1_000_000;

/// Changes that were written, and are not answered yet.
struct MadeChanges {
    draft: Draft,
    /// These changes' notes.
    notes: Vec<ChangeLogEntry>,
    /// The roster that was written. `None`: none was, or other nodes also change the group.
    written_roster: Option<SeenRoster>,
    answers: Vec<(PendingChange, Result<MembersUpdated, StoreError>)>,
}

impl Cql {
    /// Makes a change, at most once for a request.
    pub(in crate::cql) async fn change_for_request(
        &self,
        group: GroupId,
        change: MemberChange,
        terms: ChangeContext,
        write: Write,
    ) -> ChangeResult {
        let make = async |begun| {
            let changed = self.enqueue(group, change, terms, write.clone(), begun).await?;
            if changed.replayed {
                self.complete_memberships(&changed.record).await?;
            }
            Ok(changed)
        };
        self.change_once(&write, |key| make(key.map(|key| key.begun))).await
    }

    /// Queues a change, and waits for its result. Starts the task that decides the group's changes, if none
    /// runs.
    async fn enqueue(
        &self,
        group: GroupId,
        change: MemberChange,
        terms: ChangeContext,
        write: Write,
        begun: Option<i64>,
    ) -> ChangeResult {
        let this = self.this.upgrade().ok_or_else(not_connected)?;
        let (pending, answered) = PendingChange::new(change, terms, write, begun);
        if self.change_queue.push(group, pending)? {
            // Runs in a separate task: other callers' changes must not end with this call.
            tokio::spawn(async move {
                let (mut consumer, mut ending) = (this.change_queue.consumer(group), None::<JoinHandle<()>>);
                let mut known = None;
                while let Some(step) = consumer.next() {
                    let made = Box::pin(this.step(group, step, known)).await;
                    known = made.as_ref().and_then(|made| made.written_roster);
                    if let Some(before) = ending.take() {
                        before.await.ok();
                    }
                    // The follow-up takes as long as the next step, which need not wait for it.
                    ending = made.map(|made| tokio::spawn(Arc::clone(&this).end_step(made)));
                }
            });
        }
        await_answer(answered).await
    }

    /// Decides and writes these changes, and tries again if another write changed the group meanwhile.
    /// `known`: the roster that the previous step wrote. If another node has changed it since, the
    /// conditional write fails. `None`: all changes are answered.
    async fn step(
        &self,
        group: GroupId,
        mut queued: Vec<PendingChange>,
        mut known: Option<SeenRoster>,
    ) -> Option<MadeChanges> {
        let mut note = ChangeLogEntry::about(self, ChangeSubject::Roster(group));
        let mut failed = FailedAttempts::default();
        loop {
            note = self.renewed_note(note);
            let error = match self.try_step(group, &mut queued, known.take(), note).await {
                Ok(made) if failed.is_empty() => return Some(made),
                // Other nodes change the group, too, so the next step reads the roster first.
                Ok(made) => return Some(made.retried(&failed)),
                Err(error) => error,
            };
            if let Err(error) = failed.again(error).await {
                for pending in queued {
                    let error = failed.ended(error.clone(), pending.key().is_some());
                    pending.respond(Err(error));
                }
                return None;
            }
        }
    }

    /// Writes the follow-up after changes, and sends their answers.
    async fn end_step(self: Arc<Self>, made: MadeChanges) {
        let followed = self.follow_up(&made.draft, made.notes).await;
        for (pending, decided) in made.answers {
            // The answer to a refused change does not depend on the follow-up.
            let answer = decided.and_then(|record| followed.clone().map(|()| record));
            pending.respond(answer.map(|record| Applied { record, replayed: false }));
        }
    }

    /// The note for the next attempt: this note, or a new note if it is too old.
    pub(in crate::cql) fn renewed_note(&self, note: ChangeLogEntry) -> ChangeLogEntry {
        let is_old = self.client.clock.micros() - note.stamp > NOTED_AT_ONCE;
        if is_old { ChangeLogEntry::about(self, note.subject) } else { note }
    }

    /// Decides these changes from the stored state, and writes them.
    async fn try_step(
        &self,
        group: GroupId,
        queued: &mut Vec<PendingChange>,
        known: Option<SeenRoster>,
        note: ChangeLogEntry,
    ) -> Result<MadeChanges, AttemptError> {
        let before = match known {
            Some(known) => known,
            None => self.roster(group).await?,
        };
        let mut users: Vec<UserId> =
            queued.iter().flat_map(PendingChange::users).chain(before.roster.owner).collect();
        users.sort_unstable();
        users.dedup();
        let read = async { tokio::try_join!(self.members_of(group, &users), self.bans_for(group, &*queued)) };
        let (read, log_end) = tokio::join!(read, self.log_end_for(group, &*queued));
        let (rows, bans) = read?;
        self.answer_repeated(group, queued).await?;
        let mut draft = Draft::new(group, before, rows).with_bans(bans).with_log_end(log_end);
        let decided: Vec<_> = queued.iter().map(|pending| draft.decide(pending)).collect();
        if known.is_some() && draft.is_empty() {
            // Without a write, no condition proves that the known roster is current, and answers might depend
            // on a stale roster.
            return Err(AttemptError::Refused);
        }
        let after = draft.after(rand::random());
        let notes = self.write_draft(&draft, after, note).await?;
        let written_roster = (!draft.is_empty()).then_some(after);
        let answers = queued.drain(..).zip(decided).collect();
        Ok(MadeChanges { draft, notes, written_roster, answers })
    }

    /// The bans that these changes depend on.
    async fn bans_for(&self, group: GroupId, queued: &[PendingChange]) -> Result<Bans, StoreError> {
        let reads_bans = |pending: &&PendingChange| pending.change.reads_bans();
        let reading: Vec<&PendingChange> = queued.iter().filter(reads_bans).collect();
        let Some(now) = reading.iter().map(|pending| pending.write.now).min() else {
            return Ok(Bans::default());
        };
        let mut users: Vec<UserId> = reading.iter().flat_map(|pending| pending.change.users()).collect();
        users.sort_unstable();
        users.dedup();
        let mut named = self.bans_of(group, &users).await?;
        named.retain(|ban| ban.holds(now));
        let is_counted = reading.iter().any(|pending| pending.change.counts_bans());
        let count = if is_counted { self.count_bans(group, now).await? } else { 0 };
        Ok(Bans { named, count })
    }

    /// Writes a draft, unless it is empty. `after`: the new roster, by [`Draft::after`]. The returned notes
    /// must be passed to [`Self::follow_up`].
    pub(in crate::cql) async fn write_draft(
        &self,
        draft: &Draft,
        after: SeenRoster,
        note: ChangeLogEntry,
    ) -> Result<Vec<ChangeLogEntry>, AttemptError> {
        if draft.is_empty() {
            return Ok(Vec::new());
        }
        let notes = draft.notes(note);
        let begun = notes.iter().map(|note| ChangeLogEntry { version: None, ..*note }).collect();
        tokio::try_join!(self.note_members(begun), self.note_bans(draft.ban_changes()))
            .map_err(|error| as_outcome(error, Outcome::NotApplied))?;
        if draft.changes_group() {
            let found = async { Ok(self.confirmed_roster(draft.group).await?.head()) };
            self.client.write_head(draft.parts(after), after.head(), found).await?;
        } else {
            self.client.write_answer(draft.parts(after)).await?;
        }
        self.fail_point("members_written")?;
        Ok(notes)
    }

    /// Writes a draft's follow-up.
    pub(in crate::cql) async fn follow_up(
        &self,
        draft: &Draft,
        notes: Vec<ChangeLogEntry>,
    ) -> Result<(), StoreError> {
        let ended = async {
            self.write_memberships(&draft.joined_or_left()).await?;
            self.forget_bans(draft.ban_changes()).await?;
            // Last: a note with a version says that the follow-up is complete.
            self.note_members(notes).await
        };
        ended.await.map_err(|error| as_outcome(error, Outcome::Unknown))
    }

    /// Writes notes about one group with one stamp, which are in one partition. If this node writes several
    /// notes with the same stamp, the last note wins.
    async fn note_members(&self, notes: Vec<ChangeLogEntry>) -> Result<(), StoreError> {
        let Some(first) = notes.first() else { return Ok(()) };
        let timestamp = self.client.clock.micros().max(first.stamp + i64::from(first.version.is_some()));
        self.client.batch(BatchType::Unlogged, ChangeLogEntry::parts_of_group(self, &notes), timestamp).await
    }
}

impl MadeChanges {
    /// Gives the same result after several attempts.
    fn retried(mut self, failed: &FailedAttempts) -> Self {
        for (pending, decided) in &mut self.answers {
            if let Err(error) = decided {
                *error = failed.ended(error.clone(), pending.key().is_some());
            }
        }
        Self { written_roster: None, ..self }
    }
}
