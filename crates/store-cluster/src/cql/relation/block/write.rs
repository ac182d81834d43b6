//! Changes to what users have set about others.
//!
//! A change is noted before its conditional write, so that the sweep completes what a dead node leaves: the
//! blocked user's follow is ended after the write, and checked once more when the note is some seconds old.

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
        conditional::{AttemptError, FailedAttempts, Head},
        error::{as_outcome, malformed},
        session::{Bound, Statement, Values, values},
    },
    request_key::RequestKey,
    stores::Cql,
};

const RECORD_SERIAL: Statement = Statement::serial(
    "SELECT other, live, version, writer, blocked, permissions, do_not_disturb, remark, updated FROM %k.blocks \
     WHERE owner = ? AND kind = 0 AND placed = 0 AND other IN ?",
);
const CREATE: Statement = Statement::conditional(
    "INSERT INTO %k.blocks (live, version, blocked, permissions, do_not_disturb, remark, updated, writer, \
     owner, kind, placed, other) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?) IF NOT EXISTS",
);
const CHANGE: Statement = Statement::conditional(
    "UPDATE %k.blocks SET live = ?, version = ?, blocked = ?, permissions = ?, do_not_disturb = ?, remark = ?, \
     updated = ?, writer = ? WHERE owner = ? AND kind = 0 AND placed = 0 AND other = ? IF version = ?",
);
/// The statement for test builds without the condition: this condition is always true.
const CHANGE_UNCHECKED: Statement = Statement::conditional(
    "UPDATE %k.blocks SET live = ?, version = ?, blocked = ?, permissions = ?, do_not_disturb = ?, remark = ?, \
     updated = ?, writer = ? WHERE owner = ? AND kind = 0 AND placed = 0 AND other = ? IF version >= ?",
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
    "SELECT other AS begun, request, reply FROM %k.blocks WHERE owner = ? AND kind = 3 AND placed = ?",
);

/// A change to a record.
#[derive(Clone, Copy)]
struct RequestedBlock<'a> {
    edge: Edge,
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

/// The decision about a change.
enum BlockDecision<'a> {
    /// The record is written, with this event.
    Written(Block, Option<RelationEvent>),
    /// An earlier call with the same request, under this key, has this answer.
    Replayed(BlockChange, RequestKey<'a>),
}

impl Cql {
    /// Makes a change, for a request at most once.
    pub(in crate::cql) async fn change_block(
        &self,
        edge: Edge,
        patch: BlockPatch,
        write: Write,
    ) -> Result<Applied<BlockChange>, StoreError> {
        let requested = |key| RequestedBlock { edge, patch: &patch, write: &write, key };
        self.change_once(&write, |key| self.change_and_unfollow(requested(key))).await
    }

    async fn change_and_unfollow(
        &self,
        requested: RequestedBlock<'_>,
    ) -> Result<Applied<BlockChange>, StoreError> {
        let RequestedBlock { edge, patch, write, key } = requested;
        let lock = self.client.locks.lock(edge.from.get()).await;
        let note = ChangeLogEntry::about(self, ChangeSubject::Block(edge));
        let (mut unwritten, mut failed) = (Some(note), FailedAttempts::default());
        let decision = loop {
            match self.try_block(requested, &mut unwritten).await {
                Ok(decision) => break decision,
                Err(error) => failed.retry(error, key.is_some()).await?,
            }
        };
        let (block, event) = match decision {
            BlockDecision::Written(block, event) => (block, event),
            BlockDecision::Replayed(change, key) => {
                drop(lock);
                let completed = self.complete_replayed(key, change, requested).await;
                let record = completed.map_err(|error| as_outcome(error, Outcome::Unknown))?;
                return Ok(Applied { record, replayed: true });
            }
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
        let record = BlockChange { block, cut: ended?.1 };
        if let (Some(key), Some(_)) = (key, record.cut) {
            self.update_answer(key, &record).await?;
        }
        Ok(Applied { record, replayed: false })
    }

    /// Decides from what is stored, and writes the record. `note`: `None` if it is written.
    async fn try_block<'a>(
        &self,
        RequestedBlock { edge, patch, write, key }: RequestedBlock<'a>,
        note: &mut Option<ChangeLogEntry>,
    ) -> Result<BlockDecision<'a>, AttemptError> {
        let before = self.confirmed_block(edge).await?;
        if let Some(key) = key {
            let answers = values![edge.from.get(), key.position().0];
            if let Some((change, key)) = key.answer(&self.client.records(&READ_ANSWER, answers).await?)? {
                return Ok(BlockDecision::Replayed(change, key));
            }
        }
        let before = before.map_or_else(|| Block::unset(edge), BlockRow::before);
        let version = before.version;
        if write.expected.is_some_and(|expected| expected != version) {
            return Err(StoreError::Conflict { current: version }.into());
        }
        if let Some(note) = note.take() {
            let noted =
                async { tokio::try_join!(self.client.write(note.part(self), None), self.note_about(edge)) };
            noted.await.map_err(|error| as_outcome(error, Outcome::NotApplied))?;
        }
        let after = before.patched(patch, write.now);
        let event = log::permission_event(&before, &after, write.now);
        self.put_block(BlockWrite { before: &before, after: &after, live: true, key, event: event.as_ref() })
            .await?;
        Ok(BlockDecision::Written(after, event))
    }

    /// Replaces a record, together with its entries and its event.
    pub(in crate::cql) async fn put_block(&self, write: BlockWrite<'_>) -> Result<(), AttemptError> {
        let BlockWrite { before, after, live, key, event } = write;
        let writer: i64 = rand::random();
        let mut parts = vec![record_part(before.version, after, live, writer)];
        parts.extend(entry_parts(before, after));
        if let Some(key) = key {
            let answer = BlockChange { block: after.clone(), cut: None };
            parts.push(key.answer_part(&ANSWER, values![after.edge.from.get()], &answer)?);
        }
        if let Some(event) = event {
            parts.push(log::kept_part(after.version, event)?);
        }
        let found = async {
            let row = self.confirmed_block(after.edge).await?;
            let version = |row: BlockRow| Head { version: row.block.version, writer: row.writer };
            Ok(row.map_or_else(Head::default, version))
        };
        self.client.write_head(parts, Head { version: after.version, writer }, found).await
    }

    pub(in crate::cql) async fn confirmed_block(&self, edge: Edge) -> Result<Option<BlockRow>, StoreError> {
        Ok(self.blocks_of(&RECORD_SERIAL, vec![edge]).await?.pop())
    }

    /// Completes what may be incomplete after a repeated request's write.
    async fn complete_replayed(
        &self,
        key: RequestKey<'_>,
        mut change: BlockChange,
        RequestedBlock { patch, write, .. }: RequestedBlock<'_>,
    ) -> Result<BlockChange, StoreError> {
        if patch.permissions.is_some() {
            self.resume_event(&change.block).await?;
        }
        let follow = change.block.edge.reversed();
        if change.cut.is_some()
            || change.block.blocked.is_none()
            || !self.blocks_now(change.block.edge).await?
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

    async fn update_answer(&self, key: RequestKey<'_>, change: &BlockChange) -> Result<(), StoreError> {
        let (placed, other) = key.position();
        let reply = serde_json::to_string(change).map_err(|_| malformed("reply"))?;
        let owner = change.block.edge.from.get();
        let row = values![reply, owner, placed, other, key.name()];
        let updated = self.client.write_if(vec![Bound(&UPDATE_ANSWER, row)]).await.map(drop);
        updated.map_err(|error| as_outcome(error, Outcome::Unknown))
    }

    async fn blocks_now(&self, edge: Edge) -> Result<bool, StoreError> {
        Ok(self.confirmed_block(edge).await?.is_some_and(|row| row.before().blocked.is_some()))
    }

    /// Ends the follow that a block forbids, whichever user blocks; part of the sweep.
    pub(in crate::cql) async fn enforce_block(&self, edge: Edge) -> Result<(), StoreError> {
        if self.blocks_now(edge).await? {
            let now = Timestamp(self.client.clock.millis());
            self.end_if_active(edge.reversed(), Some(edge), now).await?;
        }
        Ok(())
    }
}

fn record_part(before: Version, after: &Block, live: bool, writer: i64) -> Bound {
    let mut row = settings(after, live);
    row.extend(values![writer, after.edge.from.get(), after.edge.to.get()]);
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
        let mut row = settings(after, is.is_some());
        row.extend(values![after.edge.from.get(), kind(list), place.at.0, place.user.get()]);
        parts.push(Bound(&ENTRY, row));
    }
    parts
}

/// The columns that a record and its entries share.
fn settings(block: &Block, live: bool) -> Values {
    let permissions = block.permissions.map(|set| i32::from(set.bits()));
    let (blocked, silent) = (block.blocked.map(|at| at.0), block.do_not_disturb.map(|at| at.0));
    let remark = block.remark.to_string();
    values![live, block.version.get(), blocked, permissions, silent, remark, block.updated.0]
}
