//! Ends what users have set about each other when a user is deleted.

use kith_store::{Block, Edge, Outcome, StoreError, Timestamp, UserId};

use super::write::BlockWrite;
use crate::cql::{
    change_log::{ChangeLogEntry, ChangeSubject},
    client::{
        conditional::FailedAttempts,
        error::as_outcome,
        session::{Bound, Statement, values},
    },
    stores::Cql,
};

/// Partitions for the users who have set something about a user, so that it is not one large partition.
const SLICES: i64 = 16;
const NOTE: Statement =
    Statement::plain("INSERT INTO %k.blocks_about (about, slice, owner, noted) VALUES (?, ?, ?, ?)");
const ABOUT: Statement =
    Statement::read("SELECT owner, noted FROM %k.blocks_about WHERE about = ? AND slice = ? LIMIT ?");
const FORGET: Statement =
    Statement::plain("DELETE FROM %k.blocks_about WHERE about = ? AND slice = ? AND owner = ?");

impl Cql {
    /// Notes that something may have been set.
    pub(in crate::cql) async fn note_about(&self, edge: Edge) -> Result<(), StoreError> {
        let noted = self.client.clock.micros();
        let row = values![edge.to.get(), slice(edge.from), edge.from.get(), noted];
        self.client.write(Bound(&NOTE, row), Some(noted)).await
    }

    /// Some users who may have set something about a user, with the note's time.
    pub(in crate::cql) async fn blocks_about(
        &self,
        user: UserId,
        limit: usize,
    ) -> Result<Vec<(Edge, i64)>, StoreError> {
        let mut found = Vec::new();
        for slice in 0..i32::try_from(SLICES).unwrap_or_default() {
            let room = i32::try_from(limit - found.len()).unwrap_or(i32::MAX);
            if room == 0 {
                break;
            }
            for row in self.client.records(&ABOUT, values![user.get(), slice, room]).await? {
                found.push((Edge { from: row.user("owner")?, to: user }, row.some_number("noted")?));
            }
        }
        Ok(found)
    }

    /// Forgets that note, and no later note.
    pub(in crate::cql) async fn forget_about(&self, edge: Edge, noted: i64) -> Result<(), StoreError> {
        let row = values![edge.to.get(), slice(edge.from), edge.from.get()];
        self.client.write(Bound(&FORGET, row), Some(noted)).await
    }

    /// Ends a record; returns whether there was any.
    pub(in crate::cql) async fn end_block(&self, edge: Edge) -> Result<bool, StoreError> {
        let _lock = self.client.locks.lock(edge.from.get()).await;
        let note = ChangeLogEntry::about(self, ChangeSubject::Block(edge));
        let noted = self.client.write(note.part(self), None).await;
        noted.map_err(|error| as_outcome(error, Outcome::NotApplied))?;
        let mut failed = FailedAttempts::default();
        loop {
            let Some(row) = self.confirmed_block(edge).await?.filter(|row| row.live) else {
                return Ok(false);
            };
            let before = row.before();
            let updated = Timestamp(self.client.clock.millis());
            let after = Block { version: before.version.next(), updated, ..Block::unset(edge) };
            let put = BlockWrite { before: &before, after: &after, live: false, key: None, event: None };
            match self.put_block(put).await {
                Ok(()) => {
                    let ended = ChangeLogEntry { version: Some(after.version), ..note }.part(self);
                    let ended = self.client.write(ended, None).await;
                    return ended.map(|()| true).map_err(|error| as_outcome(error, Outcome::Unknown));
                }
                Err(error) => failed.retry(error, false).await?,
            }
        }
    }
}

fn slice(owner: UserId) -> i32 {
    i32::try_from(owner.get() % SLICES).unwrap_or_default()
}
