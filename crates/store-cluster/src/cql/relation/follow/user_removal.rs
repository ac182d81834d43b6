//! Users whose edges have to be removed, noted before their deletion.

use std::collections::BTreeSet;

use kith_store::{StoreError, Timestamp, UserId};

use crate::cql::{
    client::session::{Bound, Statement, values},
    stores::Cql,
};

/// Partitions for the notes, so that they are not all in one partition.
const SLOTS: i32 = 16;

const NOTE: Statement = Statement::plain("INSERT INTO %k.removals (slot, owner, noted) VALUES (?, ?, ?)");
const NOTED: Statement = Statement::read("SELECT owner, noted FROM %k.removals WHERE slot = ? LIMIT ?");
const END: Statement = Statement::plain("DELETE FROM %k.removals WHERE slot = ? AND owner = ?");

impl Cql {
    /// Notes a user. The write's timestamp is `at`, so that the latest of several notes wins.
    pub(in crate::cql) async fn note_removal_of(
        &self,
        user: UserId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.client.write(Bound(&NOTE, values![slot(user), user.get(), at.0]), Some(stamp(at))).await
    }

    /// Returns the earliest notes, among the first `limit` in each slot. A slot with more notes may have an
    /// earlier note that is not returned.
    pub(in crate::cql) async fn noted_removals(
        &self,
        limit: usize,
    ) -> Result<Vec<(UserId, Timestamp)>, StoreError> {
        let most = i32::try_from(limit).unwrap_or(i32::MAX);
        let mut noted = BTreeSet::new();
        for slot in 0..SLOTS {
            for row in self.client.records(&NOTED, values![slot, most]).await? {
                noted.insert((row.some_number("noted")?, row.user("owner")?));
            }
        }
        Ok(noted.into_iter().take(limit).map(|(at, user)| (user, Timestamp(at))).collect())
    }

    /// Removes the note. A later note has a later timestamp, and is kept.
    pub(in crate::cql) async fn end_removal_of(
        &self,
        user: UserId,
        noted: Timestamp,
    ) -> Result<(), StoreError> {
        self.client.write(Bound(&END, values![slot(user), user.get()]), Some(stamp(noted))).await
    }
}

fn slot(user: UserId) -> i32 {
    i32::try_from(user.get() % i64::from(SLOTS)).unwrap_or_default()
}

fn stamp(at: Timestamp) -> i64 {
    at.0.saturating_mul(1000)
}
