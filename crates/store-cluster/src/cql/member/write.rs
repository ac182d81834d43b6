//! Changes of members. Changes of a group that wait on this node are decided one after the other and made by one
//! conditional write.
//!
//! The changed users are noted before the write, and once more with the versions when their groups are written, too.
//! What a dead node left in between is found by the note without a version, and completed by the sweep.

use std::{sync::Arc, time::Duration};

use kith_store::{
    Applied, Bans, ChangeContext, GroupId, MemberChange, MembersUpdated, Outcome, StoreError, UserId, Write,
};
use scylla::statement::batch::BatchType;
use tokio::task::JoinHandle;

use super::{
    batch::Draft,
    queue::{ChangeResult, PendingChange, answer},
    roster::SeenRoster,
};
use crate::cql::{
    change_log::{ChangeLogEntry, Subject},
    client::error::{as_outcome, away},
    stores::Cql,
};

pub(in crate::cql) const TRIES_MAX: u32 = 16;
const BACKOFF: Duration = Duration::from_millis(5);
/// Attempts of one change use the same note while it is not older than this, in microseconds: the note of an attempt
/// without effect is then ended by the final note, and no sweep has to check it.
const NOTED_AT_ONCE: i64 = 1_000_000;

/// Changes that were made, and are not answered yet.
struct MadeChanges {
    draft: Draft,
    /// The notes of these changes.
    notes: Vec<ChangeLogEntry>,
    /// The roster as it was written.
    left: Option<SeenRoster>,
    answers: Vec<(PendingChange, Result<MembersUpdated, StoreError>)>,
}

impl Cql {
    /// Makes a change, for a request at most once.
    pub(in crate::cql) async fn change_for_request(
        &self,
        group: GroupId,
        change: MemberChange,
        terms: ChangeContext,
        write: Write,
    ) -> ChangeResult {
        let Some(request) = write.request.clone() else {
            return self.wish(group, change, terms, write, None).await;
        };
        let (begun, is_new) = self.begun(&request, write.now).await?;
        let changed = self.wish(group, change, terms, write, Some(begun)).await;
        if let Ok(Applied { record, replayed: true }) = &changed {
            self.end_memberships(record).await?;
        }
        self.close_request(&request, is_new, changed.as_ref().err()).await?;
        changed
    }

    /// Queues a change, and waits for its result.
    async fn wish(
        &self,
        group: GroupId,
        change: MemberChange,
        terms: ChangeContext,
        write: Write,
        begun: Option<i64>,
    ) -> ChangeResult {
        let this = self.this.upgrade().ok_or_else(away)?;
        let (wish, answered) = PendingChange::new(change, terms, write, begun);
        if self.wishes.push(group, wish)? {
            // In a separate task: the changes of other callers must not end with this call.
            tokio::spawn(async move {
                let (mut turn, mut ending) = (this.wishes.turn(group), None::<JoinHandle<()>>);
                let mut known = None;
                while let Some(step) = turn.next() {
                    let made = Box::pin(this.step(group, step, known)).await;
                    known = made.as_ref().and_then(|made| made.left);
                    if let Some(before) = ending.take() {
                        before.await.ok();
                    }
                    // The follow-up of a change takes as long as the next change, which need not wait for it.
                    ending = made.map(|made| tokio::spawn(Arc::clone(&this).end_step(made)));
                }
            });
        }
        answer(answered).await
    }

    /// Decides these changes and makes them, whatever is changed meanwhile. `None`: all are answered. `known`: the
    /// roster that the step before left, which no other write may have changed since.
    async fn step(
        &self,
        group: GroupId,
        mut wishes: Vec<PendingChange>,
        mut known: Option<SeenRoster>,
    ) -> Option<MadeChanges> {
        let mut about = ChangeLogEntry::about(self, Subject::Roster(group));
        for tries in 0..TRIES_MAX {
            about = self.fresh(about);
            match self.try_step(group, &mut wishes, known.take(), about).await {
                // If other nodes change the group, too, the next step should read first.
                Ok(Some(made)) if tries > 0 => return Some(MadeChanges { left: None, ..made }),
                Ok(Some(made)) => return Some(made),
                Ok(None) => self.back_off(tries).await,
                Err(error) => {
                    respond_all(wishes, &error);
                    return None;
                }
            }
        }
        respond_all(wishes, &StoreError::Overloaded);
        None
    }

    /// Writes the follow-up of changes, and answers them.
    async fn end_step(self: Arc<Self>, made: MadeChanges) {
        let followed = self.follow_up(&made.draft, made.notes).await;
        for (wish, decided) in made.answers {
            // A refusal does not depend on the follow-up of the others.
            let answer = decided.and_then(|record| followed.clone().map(|()| record));
            wish.respond(answer.map(|record| Applied { record, replayed: false }));
        }
    }

    /// Waits for a random time, so that writers do not refuse each other repeatedly.
    pub(in crate::cql) async fn back_off(&self, tries: u32) {
        tokio::time::sleep(BACKOFF.mul_f64(rand::random_range(0.0..f64::from(tries + 1)))).await;
    }

    /// The note of an attempt.
    pub(in crate::cql) fn fresh(&self, about: ChangeLogEntry) -> ChangeLogEntry {
        let is_old = self.client.clock.micros() - about.stamp > NOTED_AT_ONCE;
        if is_old { ChangeLogEntry::about(self, about.subject) } else { about }
    }

    /// Decides these changes from what is stored and makes them; `None`: another write changed the group meanwhile.
    async fn try_step(
        &self,
        group: GroupId,
        wishes: &mut Vec<PendingChange>,
        known: Option<SeenRoster>,
        about: ChangeLogEntry,
    ) -> Result<Option<MadeChanges>, StoreError> {
        // Read first: the write is conditional on this version, so nothing that is read later can be older.
        let before = match known {
            Some(known) => known,
            None => self.roster(group).await?,
        };
        let mut users: Vec<UserId> =
            wishes.iter().flat_map(PendingChange::users).chain(before.roster.owner).collect();
        users.sort_unstable();
        users.dedup();
        let read = async { tokio::try_join!(self.members_of(group, &users), self.bans_for(group, &*wishes)) };
        let (read, log_end) = tokio::join!(read, self.log_end_for(group, &*wishes));
        let (rows, bans) = read?;
        // Read last: if the effect of this request is in what was read, its answer is stored by now, so the request is
        // not refused because of its own effect.
        self.answer_again(group, wishes).await?;
        let mut draft = Draft::new(group, before, rows).with_bans(bans).with_log_end(log_end);
        let decided: Vec<_> = wishes.iter().map(|wish| draft.decide(wish)).collect();
        if known.is_some() && draft.is_empty() {
            // Without a write, nothing proves that the known roster is current, and answers might depend on a stale
            // one.
            return Ok(None);
        }
        let after = draft.after(rand::random());
        let Some(notes) = self.make(&draft, after, about).await? else { return Ok(None) };
        let left = (!draft.is_empty()).then_some(after);
        Ok(Some(MadeChanges { draft, notes, left, answers: wishes.drain(..).zip(decided).collect() }))
    }

    /// The bans that these changes depend on.
    async fn bans_for(&self, group: GroupId, wishes: &[PendingChange]) -> Result<Bans, StoreError> {
        let reading: Vec<&PendingChange> = wishes.iter().filter(|wish| wish.change.reads_bans()).collect();
        let Some(now) = reading.iter().map(|wish| wish.write.now).min() else { return Ok(Bans::default()) };
        let mut users: Vec<UserId> = reading.iter().flat_map(|wish| wish.change.users()).collect();
        users.sort_unstable();
        users.dedup();
        let mut named = self.bans_of(group, &users).await?;
        named.retain(|ban| ban.holds(now));
        let is_counted = reading.iter().any(|wish| matches!(wish.change, MemberChange::Ban(..)));
        let count = if is_counted { self.count_bans(group, now).await? } else { 0 };
        Ok(Bans { named, count })
    }

    /// Writes a draft, if there is something to write; `None`: another write changed the group meanwhile. The result
    /// must be given to [`Self::follow_up`]. `after`: the new roster, by [`Draft::after`].
    pub(in crate::cql) async fn make(
        &self,
        draft: &Draft,
        after: SeenRoster,
        about: ChangeLogEntry,
    ) -> Result<Option<Vec<ChangeLogEntry>>, StoreError> {
        if draft.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let notes = draft.notes(about);
        let begun = notes.iter().map(|note| ChangeLogEntry { version: None, ..*note }).collect();
        tokio::try_join!(self.note_members(begun), self.note_bans(draft.ban_changes()))
            .map_err(|error| as_outcome(error, Outcome::NotApplied))?;
        if !self.put(draft, after).await? {
            return Ok(None);
        }
        self.dies_at("changed")?;
        Ok(Some(notes))
    }

    /// Writes the follow-up of a draft.
    pub(in crate::cql) async fn follow_up(
        &self,
        draft: &Draft,
        notes: Vec<ChangeLogEntry>,
    ) -> Result<(), StoreError> {
        let ended = async {
            self.write_memberships(&draft.crossed()).await?;
            self.forget_bans(draft.ban_changes()).await?;
            // Only now: the note says that nothing remains to be done.
            self.note_members(notes).await
        };
        ended.await.map_err(|error| as_outcome(error, Outcome::Unknown))
    }

    /// Writes notes of one group and moment, which are in one partition. Of several notes of this node for the moment,
    /// the last one wins.
    async fn note_members(&self, notes: Vec<ChangeLogEntry>) -> Result<(), StoreError> {
        let Some(first) = notes.first() else { return Ok(()) };
        let timestamp = self.client.clock.micros().max(first.stamp + i64::from(first.version.is_some()));
        self.client.batch(BatchType::Unlogged, ChangeLogEntry::parts_of_group(self, &notes), timestamp).await
    }

    async fn put(&self, draft: &Draft, after: SeenRoster) -> Result<bool, StoreError> {
        match self.client.decide(draft.parts(after)).await {
            Ok(refused) => Ok(refused.is_none()),
            // The answer to the request is read before the next attempt.
            Err(error) if error.outcome() == Outcome::Unknown && !draft.changes_something() => Ok(false),
            Err(error) if error.outcome() == Outcome::Unknown => {
                // The serial read ends writes in progress, so that this write has now taken effect or never will.
                let found = self.decided_roster(draft.group).await;
                let found = found.map_err(|error| as_outcome(error, Outcome::Unknown))?;
                if found.roster.version > after.roster.version {
                    // Other writes may have followed this one.
                    return Err(error);
                }
                Ok(found == after)
            }
            Err(error) => Err(error),
        }
    }
}

fn respond_all(wishes: Vec<PendingChange>, error: &StoreError) {
    for wish in wishes {
        wish.respond(Err(error.clone()));
    }
}
