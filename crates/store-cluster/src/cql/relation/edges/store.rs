//! Maintenance for follows, their entries and their counts.

use std::collections::BTreeSet;

use async_trait::async_trait;
use kith_store::{
    CountsRebuilt, Edge, EdgeUpkeep, EdgesVerified, Follow, FollowList, RemovedEdges, StoreError, Timestamp,
    UserId,
};

use super::{scan_cursor::ScanCursor, verify::ring_fraction};
use crate::cql::{
    client::{
        error::malformed,
        row::NamedRow,
        session::{Statement, values},
    },
    relation::follow::{
        bucket::{LISTS, ListPart},
        count::PartCount,
    },
    stores::Cql,
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

/// Parts that one request returns.
const PARTS_AT_ONCE: usize = 64;
/// Rounds in which entries without a follow are removed before the attempt is given up.
const ROUNDS_MAX: u32 = 1000;

#[async_trait]
impl EdgeUpkeep for Cql {
    async fn verify_edges(
        &self,
        after: Option<&[u8]>,
        limit: usize,
        repair: bool,
    ) -> Result<EdgesVerified, StoreError> {
        let _permit = self.client.admit()?;
        match ScanCursor::read(after)? {
            ScanCursor::Beginning => self.verify_follows(None, limit, repair).await,
            ScanCursor::Follow(key) => self.verify_follows(Some(key), limit, repair).await,
            ScanCursor::Entries => self.verify_entries(None, limit, repair).await,
            ScanCursor::Entry(key) => self.verify_entries(Some(key), limit, repair).await,
            ScanCursor::Part(_) => Err(ScanCursor::invalid()),
        }
    }

    async fn rebuild_counts(&self, after: Option<&[u8]>, limit: usize) -> Result<CountsRebuilt, StoreError> {
        let _permit = self.client.admit()?;
        let rows = self.parts_after(ScanCursor::read(after)?).await?;
        let mut recount = Recount::default();
        for row in &rows {
            let part = ListPart {
                owner: row.some_number("owner")?,
                list: row.small("list")?,
                bucket: row.small("bucket")?,
            };
            let counted = self.recount(part).await?;
            recount.add(part, counted, row.some_number("ring")?)?;
            if recount.entries >= i64::try_from(limit).unwrap_or(i64::MAX) {
                return Ok(recount.result());
            }
        }
        if rows.len() < PARTS_AT_ONCE {
            return Ok(CountsRebuilt { next: None, done: 1.0, ..recount.result() });
        }
        Ok(recount.result())
    }

    async fn remove_edges(&self, user: UserId, limit: usize) -> Result<RemovedEdges, StoreError> {
        let _permit = self.client.admit()?;
        let mut removed = RemovedEdges::default();
        for list in LISTS {
            self.remove_follows(user, list, limit, &mut removed).await?;
        }
        let room = limit - removed.follows.len();
        if room > 0 {
            self.remove_blocks(user, room, &mut removed).await?;
        }
        Ok(removed)
    }

    async fn note_removal(&self, user: UserId, at: Timestamp) -> Result<(), StoreError> {
        let _permit = self.client.admit()?;
        self.note_removal_of(user, at).await
    }

    async fn removals(&self, limit: usize) -> Result<Vec<(UserId, Timestamp)>, StoreError> {
        let _permit = self.client.admit()?;
        self.noted_removals(limit).await
    }

    async fn end_removal(&self, user: UserId, noted: Timestamp) -> Result<(), StoreError> {
        let _permit = self.client.admit()?;
        self.end_removal_of(user, noted).await
    }
}

/// A recount step's result.
#[derive(Default)]
struct Recount {
    /// How many entries the parts have.
    entries: i64,
    corrected_of: BTreeSet<UserId>,
    rebuilt: CountsRebuilt,
}

impl Recount {
    /// Adds a part that was counted; `ring` is its token.
    fn add(&mut self, part: ListPart, counted: PartCount, ring: i64) -> Result<(), StoreError> {
        let ListPart { owner, list, bucket } = part;
        self.entries += counted.entries;
        self.rebuilt.counted += 1;
        if counted.corrected {
            self.rebuilt.corrected += 1;
            self.corrected_of.insert(UserId::new(owner).map_err(|_| malformed("owner"))?);
        }
        self.rebuilt.done = ring_fraction(ring);
        self.rebuilt.next = Some(ScanCursor::Part([owner, i64::from(list), i64::from(bucket)]).written());
        Ok(())
    }

    fn result(self) -> CountsRebuilt {
        CountsRebuilt { corrected_of: self.corrected_of.into_iter().collect(), ..self.rebuilt }
    }
}

impl Cql {
    /// Some list parts, in token order.
    async fn parts_after(&self, mark: ScanCursor) -> Result<Vec<NamedRow>, StoreError> {
        match mark {
            ScanCursor::Beginning => self.client.records(&PARTS, values![]).await,
            ScanCursor::Part([owner, list, bucket]) => {
                let (list, bucket) = (ScanCursor::small(list)?, ScanCursor::small(bucket)?);
                self.client.records(&PARTS_AFTER, values![owner, list, bucket]).await
            }
            ScanCursor::Follow(_) | ScanCursor::Entries | ScanCursor::Entry(_) => Err(ScanCursor::invalid()),
        }
    }

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
            let page: Vec<Follow> = self.list_page(user, list, None, limit - removed.follows.len()).await?;
            if page.is_empty() {
                return Ok(());
            }
            for follow in page {
                let now = Timestamp(self.client.clock.millis());
                if self.end_if_active(follow.edge, None, now).await?.is_some() {
                    removed.follows.push(follow.edge);
                } else {
                    // The list has an entry without a follow.
                    self.remove_strays(&follow, list).await?;
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
        for row in self.client.records(&OWNED, values![user.get(), most]).await? {
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
