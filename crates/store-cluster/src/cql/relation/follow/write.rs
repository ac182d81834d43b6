//! Follow and unfollow.
//!
//! A follow first takes its slot, which is its position in both lists, by a conditional write. If the row
//! exists already, the write is refused and returns the row. The state is then written without a condition to
//! the row and to both lists, in one logged batch with the version as timestamp. So the highest version among
//! concurrent writes wins in all three places, even if clocks differ.

use std::time::{Duration, Instant};

use kith_store::{
    Applied, Edge, Follow, FollowList, Outcome, RelationEvent, StoreError, Stored, Timestamp, Version, Write,
};
use scylla::statement::batch::BatchType;
use serde::{Deserialize, Serialize};

use super::{
    bucket::LISTS,
    row::{FollowRow, ListSlot, State, entry_key, entry_part, entry_parts, follow, key, state_part},
};
use crate::cql::{
    change_log::ChangeLogEntry,
    client::{
        error::{as_outcome, malformed},
        fault_injection,
        session::{Bound, Statement, values},
    },
    idempotency::RequestState,
    stores::Cql,
};

const TAKE_SLOT: Statement = Statement::conditional(
    "INSERT INTO %k.follows (edge, placed, in_following, in_fans) VALUES (?, ?, ?, ?) \
     IF NOT EXISTS",
);
const MOVE_SLOT: Statement = Statement::conditional(
    "UPDATE %k.follows SET placed = ?, in_following = ?, in_fans = ? WHERE edge = ? \
     IF placed = ? AND in_following = ? AND in_fans = ? AND version = ?",
);
const ROW_SERIAL: Statement = Statement::serial(
    "SELECT placed, in_following, in_fans, brought, \
     brought_following, brought_fans, live, version, since, changed FROM %k.follows \
     WHERE edge = ?",
);
const TRIES_MAX: u32 = 8;
/// After a state write that took longer, the call checks whether its slot was moved.
const QUICK: Duration = Duration::from_secs(10);

/// The planned writes that begin a follow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(in crate::cql) struct FollowPlan {
    edge: Edge,
    #[serde(rename = "seat")]
    slot: ListSlot,
    state: State,
    /// Nothing is to be written.
    #[serde(rename = "stands")]
    is_active_already: bool,
    #[serde(rename = "looks")]
    check: PostWriteCheck,
}

/// How to check after the write whether the slot was moved.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum PostWriteCheck {
    /// No other write can have moved it.
    Never,
    /// The slot is new: a concurrent import may have put the follow elsewhere.
    ForImport,
    /// Another write might move it meanwhile.
    ForMove,
}

/// The planned writes that end a follow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(in crate::cql) struct UnfollowPlan {
    edge: Edge,
    #[serde(rename = "seat")]
    slot: ListSlot,
    state: State,
    /// The event for both users, if they were friends.
    #[serde(default, rename = "parting")]
    unfriend_event: Option<RelationEvent>,
}

impl Cql {
    pub(in crate::cql) async fn begin_follow(
        &self,
        edge: Edge,
        kept: Duration,
        write: Write,
    ) -> Result<Applied<Follow>, StoreError> {
        let Some(request) = &write.request else {
            let plan = Box::pin(self.plan_follow(edge, kept, write.now)).await?;
            return Ok(Applied { record: self.execute_follow(plan).await?, replayed: false });
        };
        let plan = Box::pin(self.plan_follow(edge, kept, write.now));
        let (plan, replayed) = match self.plan_once(request, write.now, plan).await? {
            RequestState::Done(plan) => {
                return Ok(Applied { record: follow(edge, plan.slot, plan.state)?, replayed: true });
            }
            RequestState::Planned(plan) => (FollowPlan { check: PostWriteCheck::ForMove, ..plan }, true),
            RequestState::New(plan) => (plan, false),
        };
        let begun = self.execute_follow(plan).await;
        self.close_request(request, !replayed, begun.as_ref().err()).await?;
        Ok(Applied { record: begun?, replayed })
    }

    pub(in crate::cql) async fn end_follow(
        &self,
        edge: Edge,
        write: Write,
    ) -> Result<Applied<Version>, StoreError> {
        let Some(request) = &write.request else {
            let plan = self.plan_unfollow(edge, Some(edge), write.now).await?;
            return Ok(Applied { record: self.execute_unfollow(plan).await?, replayed: false });
        };
        let plan = Box::pin(self.plan_unfollow(edge, Some(edge), write.now));
        let (plan, replayed) = match self.plan_once(request, write.now, plan).await? {
            RequestState::Done(plan) => return Ok(Applied { record: plan.version()?, replayed: true }),
            RequestState::Planned(plan) => (plan, true),
            RequestState::New(plan) => (plan, false),
        };
        let ended = self.execute_unfollow(plan).await;
        self.close_request(request, !replayed, ended.as_ref().err()).await?;
        Ok(Applied { record: ended?, replayed })
    }

    /// Ends the follow if it is active. If that ends a friendship, both users get the event that `by.from`
    /// has ended it with `by.to`; without `by` there is no event. Returns `None` if the follow is not active.
    pub(in crate::cql) async fn end_if_active(
        &self,
        edge: Edge,
        by: Option<Edge>,
        now: Timestamp,
    ) -> Result<Option<Version>, StoreError> {
        match self.plan_unfollow(edge, by, now).await {
            Ok(plan) => self.execute_unfollow(plan).await.map(Some),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn plan_follow(
        &self,
        edge: Edge,
        kept: Duration,
        now: Timestamp,
    ) -> Result<FollowPlan, StoreError> {
        // For users without known head buckets, both lists are read in one request.
        let buckets = async {
            self.learn_heads([edge.from, edge.to].into_iter()).await?;
            tokio::try_join!(
                self.bucket_for(edge.from, FollowList::Following),
                self.bucket_for(edge.to, FollowList::Fans),
            )
        };
        let (is_blocked, (in_following, in_fans)) =
            tokio::try_join!(self.is_blocked(edge.reversed()), buckets)?;
        if is_blocked {
            return Err(StoreError::Blocked);
        }
        let wanted = ListSlot { at: now.0, in_following, in_fans };
        let apart = self.client.options.clocks_apart;
        let mut before = self.take_slot(edge, wanted).await?;
        for _ in 0..TRIES_MAX {
            let Some(row) = before else {
                return Ok(self.new_follow_plan(edge, wanted, 0, now, PostWriteCheck::ForImport));
            };
            if let Some(state) = row.state.filter(|state| state.live) {
                return Ok(FollowPlan {
                    edge,
                    slot: row.slot,
                    state,
                    is_active_already: true,
                    check: PostWriteCheck::Never,
                });
            }
            let until = kept_until(&row, kept, apart);
            if now < until {
                let check =
                    if now.after(apart) >= until { PostWriteCheck::ForMove } else { PostWriteCheck::Never };
                return Ok(self.new_follow_plan(edge, row.slot, row.version(), now, check));
            }
            if !self.move_slot(&row, wanted).await? {
                before = self.take_slot(edge, wanted).await?;
                continue;
            }
            before = self.carry_over_state(&row).await?;
            if before.is_none() {
                let check = if kept < apart { PostWriteCheck::ForMove } else { PostWriteCheck::Never };
                return Ok(self.new_follow_plan(edge, wanted, row.version(), now, check));
            }
        }
        Err(StoreError::Overloaded)
    }

    fn new_follow_plan(
        &self,
        edge: Edge,
        slot: ListSlot,
        above: i64,
        now: Timestamp,
        check: PostWriteCheck,
    ) -> FollowPlan {
        let version = self.client.clock.version(above);
        let state = State { live: true, version, since: now.0, changed: now.0 };
        FollowPlan { edge, slot, state, is_active_already: false, check }
    }

    /// Takes the slot if the edge has none; else returns the row.
    async fn take_slot(&self, edge: Edge, slot: ListSlot) -> Result<Option<FollowRow>, StoreError> {
        let ListSlot { at, in_following, in_fans } = slot;
        let row = values![key(edge), at, in_following, in_fans];
        match self.client.write_if(vec![Bound(&TAKE_SLOT, row)]).await {
            Ok(None) => Ok(None),
            Ok(Some(refused)) => FollowRow::of(edge, &refused)?.map(Some).ok_or_else(|| malformed("placed")),
            Err(error) if error.outcome() == Outcome::Unknown => {
                // The slot comes from this call or another: either is correct.
                let row = self.confirmed_follow(edge).await?;
                row.map(Some).ok_or_else(|| as_outcome(error, Outcome::NotApplied))
            }
            Err(error) => Err(error),
        }
    }

    /// Moves an inactive follow's slot, if no other write changed the row. Returns whether it was moved.
    async fn move_slot(&self, row: &FollowRow, to: ListSlot) -> Result<bool, StoreError> {
        let edge = row.edge;
        let version = row.state.map(|state| state.version);
        let mut change = values![to.at, to.in_following, to.in_fans, key(edge)];
        let from = row.is_conditional.then_some(row.slot);
        change.extend(values![from.map(|slot| slot.at), from.map(|slot| slot.in_following)]);
        change.extend(values![from.map(|slot| slot.in_fans), version]);
        match self.client.write_if(vec![Bound(&MOVE_SLOT, change)]).await {
            Ok(refused) => Ok(refused.is_none()),
            Err(error) if error.outcome() == Outcome::Unknown => {
                let now = self.confirmed_follow(edge).await?;
                Ok(now.is_some_and(|now| now.slot == to && now.state == row.state))
            }
            Err(error) => Err(error),
        }
    }

    /// Looks for a state that another write put at the old slot during the move. Writes it to the new slot,
    /// and returns the row.
    ///
    /// A write at a slot checks afterwards whether the slot was moved, and a move checks here whether there
    /// was a write: if the two race, at least one observes the other. This holds although a move may be
    /// decided before a write, and become visible only after that write's check, even to a serial read.
    async fn carry_over_state(&self, old: &FollowRow) -> Result<Option<FollowRow>, StoreError> {
        let row = self.follow_row(old.edge).await?.filter(|row| row.state != old.state);
        if let Some(row) = &row {
            let repaired = self.repair_lists(row, old.slot, row.version()).await;
            repaired.map_err(|error| as_outcome(error, Outcome::NotApplied))?;
        }
        Ok(row)
    }

    /// The row by a serial read, which first ends the conditional writes in progress.
    async fn confirmed_follow(&self, edge: Edge) -> Result<Option<FollowRow>, StoreError> {
        let rows = self.client.records(&ROW_SERIAL, values![key(edge)]).await?;
        rows.first().map_or(Ok(None), |row| FollowRow::of(edge, row))
    }

    async fn execute_follow(&self, plan: FollowPlan) -> Result<Follow, StoreError> {
        let FollowPlan { edge, slot, state, is_active_already, check } = plan;
        if is_active_already {
            return follow(edge, slot, state);
        }
        let begun = Instant::now();
        self.fail_point("follow_slot_taken")?;
        self.write_state(edge, slot, state, Vec::new()).await?;
        self.fail_point("follow_written")?;
        let check = if begun.elapsed() > QUICK { PostWriteCheck::ForMove } else { check };
        // The state is written: a failure from here on does not undo it.
        let checked = self.check_after_write(edge, slot, state, check).await;
        let slot = checked.map_err(|error| as_outcome(error, Outcome::Unknown))?;
        follow(edge, slot, state)
    }

    /// Checks for concurrent changes after the state was written: where the slot is now, and whether the
    /// follow is forbidden.
    async fn check_after_write(
        &self,
        edge: Edge,
        slot: ListSlot,
        state: State,
        check: PostWriteCheck,
    ) -> Result<ListSlot, StoreError> {
        let row = async {
            match check {
                PostWriteCheck::Never => Ok(None),
                PostWriteCheck::ForImport => self.follow_row(edge).await,
                // A concurrent move is visible now, or finds the state that was written here.
                PostWriteCheck::ForMove => self.confirmed_follow(edge).await,
            }
        };
        // A block looks for a follow after its write: if the two race, at least one observes the other.
        let (is_blocked, row) = tokio::try_join!(self.is_blocked(edge.reversed()), row)?;
        if let Some(row) = &row {
            let slots = [Some(slot), row.imported_slot].into_iter().flatten();
            for stray in slots.filter(|stray| *stray != row.slot) {
                self.repair_lists(row, stray, state.version).await?;
            }
        }
        if is_blocked {
            self.end_if_active(edge, None, Timestamp(state.changed)).await?;
            return Err(StoreError::Blocked);
        }
        Ok(row.map_or(slot, |row| row.slot))
    }

    async fn plan_unfollow(
        &self,
        edge: Edge,
        by: Option<Edge>,
        now: Timestamp,
    ) -> Result<UnfollowPlan, StoreError> {
        let back = async { if by.is_some() { self.follow_row(edge.reversed()).await } else { Ok(None) } };
        let (row, back) = tokio::try_join!(self.follow_row(edge), back)?;
        let row = row.ok_or(StoreError::NotFound)?;
        let state = row.state.filter(|state| state.live).ok_or(StoreError::NotFound)?;
        let version = self.client.clock.version(state.version);
        let state = State { live: false, version, changed: now.0, ..state };
        let unfriend_event = match (by, &back) {
            (Some(by), Some(back)) => self.unfriend_event(by, [&row, back], now).await?,
            _ => None,
        };
        Ok(UnfollowPlan { edge, slot: row.slot, state, unfriend_event })
    }

    async fn execute_unfollow(&self, plan: UnfollowPlan) -> Result<Version, StoreError> {
        let UnfollowPlan { edge, slot, state, unfriend_event } = plan;
        let event_parts = unfriend_event.map(|event| self.event_parts(&event)).transpose()?;
        self.write_state(edge, slot, state, event_parts.into_iter().flatten().collect()).await?;
        let repaired = async {
            match self.follow_row(edge).await?.filter(|row| row.slot != slot) {
                Some(row) => self.repair_lists(&row, slot, state.version).await,
                None => Ok(()),
            }
        };
        repaired.await.map_err(|error| as_outcome(error, Outcome::Unknown))?;
        plan.version()
    }

    /// Writes the state to the row and to both lists, with its event and its entry in the change log.
    async fn write_state(
        &self,
        edge: Edge,
        slot: ListSlot,
        state: State,
        event_parts: Vec<Bound>,
    ) -> Result<(), StoreError> {
        let mut parts = vec![state_part(edge, state)];
        parts.extend(entry_parts(edge, slot, state));
        parts.extend(event_parts);
        parts.push(ChangeLogEntry::of_follow(self, edge, slot, state.version).part(self));
        if fault_injection::lacks("one_batch") {
            return self.write_separately(parts, state.version).await;
        }
        self.client.batch(BatchType::Logged, parts, state.version).await
    }

    /// Writes one part after the other, with the fail point `between_parts` after each.
    async fn write_separately(&self, parts: Vec<Bound>, timestamp: i64) -> Result<(), StoreError> {
        for part in parts {
            self.client.batch(BatchType::Logged, vec![part], timestamp).await?;
            fault_injection::fail_point("between_parts");
        }
        Ok(())
    }

    /// Makes both lists agree with the row after a write at another slot (`stray`): ends the entries there,
    /// and then writes those at the row's slot.
    pub(in crate::cql) async fn repair_lists(
        &self,
        row: &FollowRow,
        stray: ListSlot,
        written: i64,
    ) -> Result<(), StoreError> {
        let Some(state) = row.state else { return Ok(()) };
        let above = State { live: false, version: state.version.max(written) + 1, ..state };
        let mut parts: Vec<Bound> = LISTS
            .into_iter()
            .filter(|list| {
                let (has, is) = (entry_key(row.edge, *list, stray), entry_key(row.edge, *list, row.slot));
                (has, stray.at) != (is, row.slot.at)
            })
            .map(|list| entry_part(row.edge, list, stray, above))
            .collect();
        parts.push(ChangeLogEntry::of_count(self, row.edge, stray).part(self));
        self.client.batch(BatchType::Logged, parts, above.version).await?;
        let mut parts = entry_parts(row.edge, row.slot, state).to_vec();
        parts.push(ChangeLogEntry::of_count(self, row.edge, row.slot).part(self));
        self.client.batch(BatchType::Logged, parts, state.version).await
    }

    /// Fails as if the node died here, if a test sets this fail point.
    pub(in crate::cql) fn fail_point(&self, name: &'static str) -> Result<(), StoreError> {
        fault_injection::fail_point(name);
        match self.client.options.fail_point {
            Some(set) if set == name => {
                Err(crate::cql::client::error::unavailable("ended by a test", Outcome::Unknown))
            }
            _ => Ok(()),
        }
    }

    async fn is_blocked(&self, edge: Edge) -> Result<bool, StoreError> {
        let found = self.block_records(&[edge]).await?;
        Ok(found.into_iter().any(|(_, block)| match block {
            Stored::Live(block) => block.blocked.is_some(),
            Stored::Deleted(_) | Stored::Never => false,
        }))
    }
}

impl UnfollowPlan {
    fn version(&self) -> Result<Version, StoreError> {
        Version::new(self.state.version).ok_or_else(|| malformed("version"))
    }
}

/// Until when an inactive follow keeps its slot. A follow that was never active keeps it for as long as its
/// write may be in progress.
fn kept_until(row: &FollowRow, kept: Duration, apart: Duration) -> Timestamp {
    match row.state {
        Some(state) => Timestamp(state.changed.max(row.slot.at)).after(kept),
        None => Timestamp(row.slot.at).after(apart),
    }
}
