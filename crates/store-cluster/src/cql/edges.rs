//! Upkeep of follows, their entries and their counts.

use std::collections::BTreeSet;

use async_trait::async_trait;
use kith_store::{
    CountsRebuilt, Edge, EdgeUpkeep, EdgesVerified, FollowList, RemovedEdges, StoreError, Timestamp, UserId,
};

use super::{
    count::Part,
    error::malformed,
    mark::Mark,
    session::{Cql, Statement, values},
    verify::share,
};

const PARTS: Statement = Statement::read(
    "SELECT DISTINCT owner, list, bucket, token(owner, list, bucket) AS ring FROM %k.follow_lists LIMIT 64",
);
const PARTS_AFTER: Statement = Statement::read(
    "SELECT DISTINCT owner, list, bucket, token(owner, list, bucket) AS ring FROM %k.follow_lists \
     WHERE token(owner, list, bucket) > token(?, ?, ?) LIMIT 64",
);
const OWNED: Statement = Statement::read(
    "SELECT other FROM %k.blocks WHERE owner = ? AND kind = 0 AND placed = 0 AND live = 1 LIMIT ? ALLOW FILTERING",
);

/// Rounds in which entries that show no follow may be struck before it is given up.
const ROUNDS_MAX: u32 = 1000;

#[async_trait]
impl EdgeUpkeep for Cql {
    async fn verify_edges(
        &self,
        after: Option<&[u8]>,
        limit: usize,
        repair: bool,
    ) -> Result<EdgesVerified, StoreError> {
        let _entered = self.enter()?;
        match Mark::read(after)? {
            Mark::Beginning => self.verify_follows(None, limit, repair).await,
            Mark::Follow(key) => self.verify_follows(Some(key), limit, repair).await,
            Mark::Entries => self.verify_entries(None, limit, repair).await,
            Mark::Entry(key) => self.verify_entries(Some(key), limit, repair).await,
            Mark::Part(_) => Err(Mark::wrong()),
        }
    }

    async fn rebuild_counts(&self, after: Option<&[u8]>, limit: usize) -> Result<CountsRebuilt, StoreError> {
        let _entered = self.enter()?;
        let rows = match Mark::read(after)? {
            Mark::Beginning => self.records(&PARTS, values![]).await?,
            Mark::Part([owner, list, bucket]) => {
                let (list, bucket) = (Mark::small(list)?, Mark::small(bucket)?);
                self.records(&PARTS_AFTER, values![owner, list, bucket]).await?
            }
            Mark::Follow(_) | Mark::Entries | Mark::Entry(_) => return Err(Mark::wrong()),
        };
        let mut rebuilt = CountsRebuilt { done: 1.0, ..CountsRebuilt::default() };
        let mut corrected_of = BTreeSet::new();
        let (mut entries, limit) = (0, i64::try_from(limit).unwrap_or(i64::MAX));
        for row in &rows {
            let (owner, list, bucket) = (row.some_number("owner")?, row.small("list")?, row.small("bucket")?);
            let counted = self.recount(Part { owner, list, bucket }).await?;
            rebuilt.counted += 1;
            if counted.corrected {
                rebuilt.corrected += 1;
                corrected_of.insert(UserId::new(owner).map_err(|_| malformed("owner"))?);
            }
            rebuilt.done = share(row.some_number("ring")?);
            rebuilt.next = Some(Mark::Part([owner, i64::from(list), i64::from(bucket)]).written());
            entries += counted.entries;
            if entries >= limit {
                rebuilt.corrected_of = corrected_of.into_iter().collect();
                return Ok(rebuilt);
            }
        }
        rebuilt.corrected_of = corrected_of.into_iter().collect();
        if rows.len() < 64 {
            (rebuilt.next, rebuilt.done) = (None, 1.0);
        }
        Ok(rebuilt)
    }

    async fn remove_edges(&self, user: UserId, limit: usize) -> Result<RemovedEdges, StoreError> {
        let _entered = self.enter()?;
        let mut removed = RemovedEdges::default();
        for list in [FollowList::Following, FollowList::Fans] {
            self.remove_follows(user, list, limit, &mut removed).await?;
        }
        let room = limit - removed.follows.len();
        if room > 0 {
            self.remove_blocks(user, room, &mut removed).await?;
        }
        Ok(removed)
    }

    async fn note_removal(&self, user: UserId, at: Timestamp) -> Result<(), StoreError> {
        let _entered = self.enter()?;
        self.note_removal_of(user, at).await
    }

    async fn removals(&self, limit: usize) -> Result<Vec<(UserId, Timestamp)>, StoreError> {
        let _entered = self.enter()?;
        self.noted_removals(limit).await
    }

    async fn end_removal(&self, user: UserId, noted: Timestamp) -> Result<(), StoreError> {
        let _entered = self.enter()?;
        self.end_removal_of(user, noted).await
    }
}

impl Cql {
    async fn remove_follows(
        &self,
        user: UserId,
        list: FollowList,
        limit: usize,
        removed: &mut RemovedEdges,
    ) -> Result<(), StoreError> {
        for _ in 0..ROUNDS_MAX {
            if removed.follows.len() >= limit {
                return Ok(());
            }
            let page = self.list_page(user, list, None, limit - removed.follows.len()).await?;
            if page.is_empty() {
                return Ok(());
            }
            for follow in page {
                let now = Timestamp(self.clock.millis());
                if self.cut(follow.edge, now).await?.is_some() {
                    removed.follows.push(follow.edge);
                } else {
                    // The list shows what is none.
                    self.strike(&follow, list).await?;
                }
            }
        }
        Err(StoreError::Overloaded)
    }

    async fn remove_blocks(
        &self,
        user: UserId,
        limit: usize,
        removed: &mut RemovedEdges,
    ) -> Result<(), StoreError> {
        let most = i32::try_from(limit).unwrap_or(i32::MAX);
        for row in self.records(&OWNED, values![user.get(), most]).await? {
            let edge = Edge { from: user, to: row.user("other")? };
            if self.end_block(edge).await? {
                removed.blocks.push(edge);
            }
        }
        let room = limit - removed.blocks.len();
        for (edge, noted) in self.blocks_about(user, room).await? {
            if self.end_block(edge).await? {
                removed.blocks.push(edge);
            }
            self.forget_about(edge, noted).await?;
        }
        Ok(())
    }
}
