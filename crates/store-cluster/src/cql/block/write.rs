//! Changes to what users have set about others.
//!
//! A change is noted before its conditional write, so that the sweep completes what a dead node leaves: the
//! blocked user's follow is ended after the write, and checked once more when the note is some seconds old.

use std::time::Duration;

use kith_store::{
    Applied, Block, BlockChange, BlockList, BlockPatch, Edge, Outcome, RelationEvent, StoreError, Timestamp,
    Version, Write,
};

use super::{
    log,
    store::{BlockRow, kind},
};
use crate::cql::{
    change_log::{ChangeLogEntry, ChangeSubject},
    client::{
        error::{as_outcome, malformed},
        session::{Bound, Statement, values},
        unanswered::UnansweredWrites,
    },
    idempotency::RequestKey,
    stores::Cql,
};

const RECORD_SERIAL: Statement = Statement::serial(
    "SELECT other, live, version, writer, blocked, permissions, do_not_disturb, remark, updated FROM %k.blocks \
     WHERE owner = ? AND kind = 0 AND placed = 0 AND other IN ?",
);
const CREATE: Statement = Statement::conditional(
    "INSERT INTO %k.blocks (live, version, writer, blocked, permissions, do_not_disturb, remark, updated, \
     owner, kind, placed, other) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?) IF NOT EXISTS",
);
const CHANGE: Statement = Statement::conditional(
    "UPDATE %k.blocks SET live = ?, version = ?, writer = ?, blocked = ?, permissions = ?, do_not_disturb = ?, remark = ?, \
     updated = ? WHERE owner = ? AND kind = 0 AND placed = 0 AND other = ? IF version = ?",
);
/// The statement for test builds without the condition: this condition is always true.
const CHANGE_UNCHECKED: Statement = Statement::conditional(
    "UPDATE %k.blocks SET live = ?, version = ?, writer = ?, blocked = ?, permissions = ?, do_not_disturb = ?, remark = ?, \
     updated = ? WHERE owner = ? AND kind = 0 AND placed = 0 AND other = ? IF version >= ?",
);
const ENTRY: Statement = Statement::conditional(
    "UPDATE %k.blocks SET live = ?, version = ?, blocked = ?, permissions = ?, do_not_disturb = ?, remark = ?, \
     updated = ? WHERE owner = ? AND kind = ? AND placed = ? AND other = ?",
);
const ANSWER: Statement = Statement::conditional(
    "INSERT INTO %k.blocks (owner, kind, placed, other, request, reply) VALUES (?, 3, ?, ?, ?, ?) IF NOT EXISTS USING TTL 86400",
);
const UPDATE_ANSWER: Statement = Statement::conditional(
    "UPDATE %k.blocks USING TTL 86400 SET reply = ? WHERE owner = ? AND kind = 3 AND placed = ? AND other = ? \
     IF request = ?",
);
const READ_ANSWER: Statement = Statement::serial(
    "SELECT other, request, reply FROM %k.blocks WHERE owner = ? AND kind = 3 AND placed = ?",
);
/// A change to a record.
struct RequestedBlock<'a> {
    patch: &'a BlockPatch,
    write: &'a Write,
    /// Its request's key, if it has any.
    key: Option<RequestKey<'a>>,
}

/// A record to be replaced.
pub(in crate::cql) struct BlockWrite<'a> {
    pub(in crate::cql) before: &'a Block,
    pub(in crate::cql) after: &'a Block,
    /// Whether the user is there.
    pub(in crate::cql) live: bool,
    pub(in crate::cql) key: Option<RequestKey<'a>>,
    pub(in crate::cql) event: Option<&'a RelationEvent>,
}

const TRIES_MAX: u32 = 16;
const BACKOFF: Duration = Duration::from_millis(5);

/// How a change ended.
#[derive(Debug)]
enum BlockOutcome<A> {
    /// It took effect by this call.
    Applied(A),
    /// An earlier call with the same request did it.
    Replayed(KeptAnswer),
}

/// The answer to an earlier call with the same request.
#[derive(Debug)]
struct KeptAnswer {
    change: BlockChange,
    /// When that call began.
    begun: i64,
}

impl Cql {
    pub(in crate::cql) async fn change_block(
        &self,
        edge: Edge,
        patch: BlockPatch,
        write: Write,
    ) -> Result<Applied<BlockChange>, StoreError> {
        let Some(request) = write.request.clone() else {
            let (BlockOutcome::Applied(record) | BlockOutcome::Replayed(KeptAnswer { change: record, .. })) =
                self.change_and_unfollow(edge, &patch, &write, None).await?;
            return Ok(Applied { record, replayed: false });
        };
        let (begun, is_new) = self.begin_request(&request, write.now).await?;
        let key = RequestKey { request: &request, begun, now: write.now };
        let changed = self.change_once(edge, &patch, &write, key).await;
        self.close_request(&request, is_new, changed.as_ref().err()).await?;
        changed
    }

    /// Changes the record for a request, unless that was done before.
    async fn change_once(
        &self,
        edge: Edge,
        patch: &BlockPatch,
        write: &Write,
        key: RequestKey<'_>,
    ) -> Result<Applied<BlockChange>, StoreError> {
        match self.change_and_unfollow(edge, patch, write, Some(key)).await? {
            BlockOutcome::Applied(record) => Ok(Applied { record, replayed: false }),
            BlockOutcome::Replayed(KeptAnswer { change, begun }) => {
                let key = RequestKey { begun, ..key };
                let ended = async {
                    if patch.permissions.is_some() {
                        self.resume_event(&change.block).await?;
                    }
                    self.complete_replayed(key, change, write).await
                };
                let record = ended.await.map_err(|error| as_outcome(error, Outcome::Unknown))?;
                Ok(Applied { record, replayed: true })
            }
        }
    }

    async fn change_and_unfollow(
        &self,
        edge: Edge,
        patch: &BlockPatch,
        write: &Write,
        key: Option<RequestKey<'_>>,
    ) -> Result<BlockOutcome<BlockChange>, StoreError> {
        let lock = self.client.locks.lock(edge.from.get()).await;
        let note = ChangeLogEntry::about(self, ChangeSubject::Block(edge));
        let (block, event) = match self.decide_block(edge, patch, write, note, key).await? {
            BlockOutcome::Applied(decided) => decided,
            BlockOutcome::Replayed(kept) => return Ok(BlockOutcome::Replayed(kept)),
        };
        // A retry of the same request waits until the answer is complete.
        let _lock = key.map(|_| lock);
        self.fail_point("block_written")?;
        let version = Some(block.version);
        let log_event = async {
            if let Some(event) = &event {
                self.write_event(event).await?;
            }
            // Written only now: the note records that both logs have it.
            self.client.write(ChangeLogEntry { version, ..note }.part(self), None).await
        };
        let unfollow = async {
            let blocks = patch.blocked == Some(true);
            if blocks { self.end_if_active(edge.reversed(), Some(edge), write.now).await } else { Ok(None) }
        };
        let ended =
            tokio::try_join!(log_event, unfollow).map_err(|error| as_outcome(error, Outcome::Unknown));
        let change = BlockChange { block, cut: ended?.1 };
        if let (Some(key), Some(_)) = (key, change.cut) {
            self.update_answer(key, &change).await?;
        }
        Ok(BlockOutcome::Applied(change))
    }

    /// Writes the record if no other write has, and returns its new state and its event.
    async fn decide_block(
        &self,
        edge: Edge,
        patch: &BlockPatch,
        write: &Write,
        note: ChangeLogEntry,
        key: Option<RequestKey<'_>>,
    ) -> Result<BlockOutcome<(Block, Option<RelationEvent>)>, StoreError> {
        let mut unanswered = UnansweredWrites::default();
        for tries in 0..TRIES_MAX {
            let note = (tries == 0).then_some(note);
            match self.try_block(edge, RequestedBlock { patch, write, key }, note, &mut unanswered).await {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => {
                    tokio::time::sleep(BACKOFF.mul_f64(rand::random_range(0.0..f64::from(tries + 1)))).await
                }
                Err(error) => return Err(unanswered.ended(error, key.is_some())),
            }
        }
        Err(unanswered.ended(StoreError::Overloaded, key.is_some()))
    }

    /// Attempts [`Self::decide_block`] once. `note`: is to be written. `None`: another write came first, or
    /// there was no answer, which is noted.
    async fn try_block(
        &self,
        edge: Edge,
        RequestedBlock { patch, write, key }: RequestedBlock<'_>,
        note: Option<ChangeLogEntry>,
        unanswered: &mut UnansweredWrites,
    ) -> Result<Option<BlockOutcome<(Block, Option<RelationEvent>)>>, StoreError> {
        let before = self.confirmed_block(edge).await?;
        // The answer is read after the record: if the record shows this request's effect, its answer is
        // stored by now, so the request is not refused because of its own effect.
        if let Some(key) = key
            && let Some(kept) = self.block_answer(edge, key).await?
        {
            return Ok(Some(BlockOutcome::Replayed(kept)));
        }
        let before = before.map_or_else(|| Block::unset(edge), BlockRow::before);
        let version = before.version;
        if write.expected.is_some_and(|expected| expected != version) {
            return Err(StoreError::Conflict { current: version });
        }
        if let Some(note) = note {
            let noted =
                async { tokio::try_join!(self.client.write(note.part(self), None), self.note_about(edge)) };
            noted.await.map_err(|error| as_outcome(error, Outcome::NotApplied))?;
        }
        let after = before.patched(patch, write.now);
        let event = log::permission_event(&before, &after, write.now);
        let put = BlockWrite { before: &before, after: &after, live: true, key, event: event.as_ref() };
        let is_put = self.put_block(put, unanswered).await?;
        Ok(is_put.then_some(BlockOutcome::Applied((after, event))))
    }

    /// Replaces a record, together with its entries and its event; `false`: another write came first, or
    /// there was no answer, which is noted.
    pub(in crate::cql) async fn put_block(
        &self,
        write: BlockWrite<'_>,
        unanswered: &mut UnansweredWrites,
    ) -> Result<bool, StoreError> {
        let BlockWrite { before, after, live, key, event } = write;
        let writer: i64 = rand::random();
        let mut parts = vec![record_part(before.version, after, live, writer)];
        parts.extend(entry_parts(before, after));
        if let Some(key) = key {
            parts.push(answer_part(key, after)?);
        }
        if let Some(event) = event {
            parts.push(log::kept_part(after.version, event)?);
        }
        match self.client.write_if(parts).await {
            Ok(refused) => Ok(refused.is_none()),
            Err(error) if error.outcome() == Outcome::Unknown => {
                // The serial read ends what servers have begun.
                let found = self.confirmed_block(after.edge).await;
                let found = found.map_err(|error| as_outcome(error, Outcome::Unknown))?;
                match found {
                    Some(row) if row.writer == writer && row.block.version == after.version => Ok(true),
                    // Other writes may have followed this write.
                    Some(row) if row.block.version > after.version => Err(error),
                    _ => {
                        unanswered.note(error);
                        Ok(false)
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    pub(in crate::cql) async fn confirmed_block(&self, edge: Edge) -> Result<Option<BlockRow>, StoreError> {
        Ok(self.blocks_of(&RECORD_SERIAL, vec![edge]).await?.pop())
    }

    /// The answer to a request, if its write took effect.
    async fn block_answer(&self, edge: Edge, key: RequestKey<'_>) -> Result<Option<KeptAnswer>, StoreError> {
        let rows = self.client.records(&READ_ANSWER, values![edge.from.get(), key.position().0]).await?;
        let found = rows.iter().find_map(|row| Some((row, key.answered_by(row, "other")?)));
        found.map(|(row, begun)| Ok(KeptAnswer { change: row.json("reply")?, begun })).transpose()
    }

    /// Completes what may be incomplete after a repeated request's write.
    async fn complete_replayed(
        &self,
        key: RequestKey<'_>,
        mut change: BlockChange,
        write: &Write,
    ) -> Result<BlockChange, StoreError> {
        let follow = change.block.edge.reversed();
        if change.cut.is_some() || change.block.blocked.is_none() || !self.still_blocks(&change.block).await?
        {
            return Ok(change);
        }
        change.cut = self.end_if_active(follow, Some(change.block.edge), write.now).await?;
        if change.cut.is_none() {
            // If the follow ended since, the block has ended it.
            let state = self.follow_row(follow).await?.and_then(|row| row.state);
            let ended = state.filter(|state| !state.live && state.changed >= change.block.updated.0);
            change.cut = ended.and_then(|state| Version::new(state.version));
        }
        if change.cut.is_some() {
            self.update_answer(key, &change).await?;
        }
        Ok(change)
    }

    async fn still_blocks(&self, block: &Block) -> Result<bool, StoreError> {
        let now = self.confirmed_block(block.edge).await?;
        Ok(now.is_some_and(|now| now.before().blocked.is_some()))
    }

    async fn update_answer(&self, key: RequestKey<'_>, change: &BlockChange) -> Result<(), StoreError> {
        let (placed, other) = key.position();
        let reply = serde_json::to_string(change).map_err(|_| malformed("reply"))?;
        let owner = change.block.edge.from.get();
        let row = values![reply, owner, placed, other, key.name()];
        let updated = self.client.write_if(vec![Bound(&UPDATE_ANSWER, row)]).await.map(drop);
        updated.map_err(|error| as_outcome(error, Outcome::Unknown))
    }

    /// Ends the follow that a block forbids, whichever user blocks; part of the sweep.
    pub(in crate::cql) async fn enforce_block(&self, edge: Edge) -> Result<Option<Version>, StoreError> {
        let block = self.confirmed_block(edge).await?;
        let now = Timestamp(self.client.clock.millis());
        if block.is_some_and(|row| row.before().blocked.is_some()) {
            return self.end_if_active(edge.reversed(), Some(edge), now).await;
        }
        Ok(None)
    }
}

fn record_part(before: Version, after: &Block, live: bool, writer: i64) -> Bound {
    let permissions = after.permissions.map(|set| i32::from(set.bits()));
    let (blocked, silent) = (after.blocked.map(|at| at.0), after.do_not_disturb.map(|at| at.0));
    let remark = after.remark.to_string();
    let mut row = values![live, after.version.get(), writer, blocked, permissions, silent, remark];
    row.extend(values![after.updated.0, after.edge.from.get(), after.edge.to.get()]);
    if before == Version::NONE {
        return Bound(&CREATE, row);
    }
    row.extend(values![before.get()]);
    let is_unchecked = crate::cql::client::fault_injection::lacks("changed_if_same");
    Bound(if is_unchecked { &CHANGE_UNCHECKED } else { &CHANGE }, row)
}

/// The entries in both lists. An ended entry is marked and not deleted: tombstones make pages slow.
fn entry_parts(before: &Block, after: &Block) -> Vec<Bound> {
    let mut parts = Vec::new();
    for list in [BlockList::Blocked, BlockList::DoNotDisturb] {
        let (was, is) = (before.position_in(list), after.position_in(list));
        let Some(place) = is.or(was) else { continue };
        let permissions = after.permissions.map(|set| i32::from(set.bits()));
        let (blocked, silent) = (after.blocked.map(|at| at.0), after.do_not_disturb.map(|at| at.0));
        let remark = after.remark.to_string();
        let mut row = values![is.is_some(), after.version.get(), blocked, permissions, silent, remark];
        row.extend(values![after.updated.0, after.edge.from.get(), kind(list), place.at.0, place.user.get()]);
        parts.push(Bound(&ENTRY, row));
    }
    parts
}

fn answer_part(key: RequestKey<'_>, after: &Block) -> Result<Bound, StoreError> {
    let (placed, other) = key.position();
    let change = BlockChange { block: after.clone(), cut: None };
    let reply = serde_json::to_string(&change).map_err(|_| malformed("reply"))?;
    Ok(Bound(&ANSWER, values![after.edge.from.get(), placed, other, key.name(), reply]))
}
