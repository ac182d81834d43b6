//! Maintains follows and blocks, a bounded step at a time. The tiers invalidate what a step changed in the
//! store.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::Node;
use kith_store::{
    CountsRebuilt, Edge, EdgeDifferenceKind, EdgeUpkeep, EdgesVerified, Outcome, StoreError, Stores, UserId,
};
use metrics::Counter;
use tokio::time::Instant;

use super::{BLOCK_EPOCHS, BLOCK_PAGES, BLOCKS, Blocks, FOLLOW_EPOCHS, FOLLOW_PAGES, FOLLOWS, Follows};
use crate::{
    error::Error,
    metric::{EDGE_COUNTS_CORRECTED, EDGE_DIFFERENCES, EDGES_CHECKED, EDGES_REMOVED},
    user::{AccountCleanup, CLEANED_WITHIN, Cleaned},
    write::{caches::CacheFactory, mutations::Mutations},
};

/// Maximum entries that one step checks.
const STEP: usize = 1000;
/// Maximum edges that one step ends.
const REMOVED_STEP: usize = 200;
/// Maximum edges, or users, that are invalidated together.
const INVALIDATED_AT_ONCE: usize = 500;

/// Upkeep of a deployment's edges, through one node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RelationUpkeep {
    store: Arc<dyn EdgeUpkeep>,
    follows: Follows,
    blocks: Blocks,
    mutations: Mutations,
    node: Node,
    counters: Arc<UpkeepCounters>,
}

impl RelationUpkeep {
    /// Creates it over `stores` and this node's caches.
    #[must_use]
    pub fn new(stores: &Stores, caches: &CacheFactory, follows: &Follows, blocks: &Blocks) -> Self {
        Self {
            store: Arc::clone(&stores.edges),
            follows: follows.clone(),
            blocks: blocks.clone(),
            mutations: follows.mutations.clone(),
            node: caches.node().clone(),
            counters: Arc::new(UpkeepCounters::new()),
        }
    }

    /// One step that compares follows with their list entries, see [`EdgeUpkeep::verify_edges`].
    ///
    /// # Errors
    /// Returns the store's errors.
    pub async fn verify(&self, after: Option<Vec<u8>>, repair: bool) -> Result<EdgesVerified, Error> {
        let this = self.clone();
        let work = async move {
            let step = this.store.verify_edges(after.as_deref(), STEP, repair).await;
            let step = step.map_err(|error| this.failed(&error))?;
            let repaired = step.differences.iter().filter(|one| one.repaired);
            this.invalidate_follows(repaired.map(|one| one.edge).collect()).await;
            this.counters.count_comparison(&step);
            Ok(step)
        };
        if repair { self.run_to_end(work).await } else { work.await }
    }

    /// One step in a recount, see [`EdgeUpkeep::rebuild_counts`].
    ///
    /// # Errors
    /// Returns the store's errors.
    pub async fn recount(&self, after: Option<Vec<u8>>) -> Result<CountsRebuilt, Error> {
        let this = self.clone();
        let work = async move {
            let step = this.store.rebuild_counts(after.as_deref(), STEP).await;
            let step = step.map_err(|error| this.failed(&error))?;
            for users in step.corrected_of.chunks(INVALIDATED_AT_ONCE) {
                // Invalidations that could not be published to other nodes now are published later.
                drop(this.follows.lists.begin_write_of(users).await.committed().await);
            }
            this.counters.corrected.increment(step.corrected);
            Ok(step)
        };
        self.run_to_end(work).await
    }

    /// Ends some follows and blocks from and to a user. False: there was none.
    async fn remove_edges(&self, user: UserId) -> Result<bool, Error> {
        let this = self.clone();
        let work = async move {
            let removed = this.store.remove_edges(user, REMOVED_STEP).await;
            let removed = removed.map_err(|error| this.failed(&error))?;
            let more = !removed.is_empty();
            this.counters.follows_removed.increment(count(removed.follows.len()));
            this.counters.blocks_removed.increment(count(removed.blocks.len()));
            this.invalidate_blocks(removed.blocks).await;
            this.invalidate_follows(removed.follows).await;
            Ok(more)
        };
        self.run_to_end(work).await
    }

    /// Runs a step to its end, even if no caller waits for it any more: its changes have to be invalidated.
    async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.mutations.run(Instant::now() + CLEANED_WITHIN, work).await
    }

    async fn invalidate_follows(&self, mut edges: Vec<Edge>) {
        edges.sort_unstable();
        edges.dedup();
        for edges in edges.chunks(INVALIDATED_AT_ONCE) {
            let lists = self.follows.lists.begin_write(edges).await;
            let records = self.follows.cache.begin_write(edges).await.invalidating();
            // Invalidations that could not be published to other nodes now are published later.
            drop(records.and([lists]).committed().await);
        }
    }

    async fn invalidate_blocks(&self, mut edges: Vec<Edge>) {
        edges.sort_unstable();
        edges.dedup();
        for edges in edges.chunks(INVALIDATED_AT_ONCE) {
            let mut users: Vec<UserId> = edges.iter().map(|edge| edge.from).collect();
            users.dedup();
            let lists = self.blocks.lists.begin_write_of(&users).await;
            let records = self.blocks.cache.begin_write(edges).await.invalidating();
            drop(records.and([lists]).committed().await);
        }
    }

    /// If it is unknown which edges were changed, memory drops them all; other nodes have the change feed.
    fn failed(&self, error: &StoreError) -> Error {
        if error.outcome() == Outcome::Unknown {
            for name in [FOLLOWS, FOLLOW_EPOCHS, FOLLOW_PAGES, BLOCKS, BLOCK_EPOCHS, BLOCK_PAGES] {
                self.node.namespace(name).iter().for_each(|namespace| namespace.flush());
            }
        }
        Error::store("edge", error)
    }
}

#[async_trait]
impl AccountCleanup for RelationUpkeep {
    async fn clean_up(&self, user: UserId) -> Result<Cleaned, Error> {
        Ok(if self.remove_edges(user).await? { Cleaned::Some } else { Cleaned::All })
    }
}

/// The upkeep metrics.
struct UpkeepCounters {
    checked: Counter,
    differences: [(EdgeDifferenceKind, Counter); 4],
    corrected: Counter,
    follows_removed: Counter,
    blocks_removed: Counter,
}

impl UpkeepCounters {
    /// Zero. They go to the recorder that is installed now.
    fn new() -> Self {
        use EdgeDifferenceKind::{NotAmongFans, NotInFollowing, StrayAmongFans, StrayInFollowing};
        let kinds = [NotInFollowing, NotAmongFans, StrayInFollowing, StrayAmongFans];
        let of = |kind| metrics::counter!(EDGE_DIFFERENCES.name, "kind" => kind_name(kind));
        let removed = |kind: &'static str| metrics::counter!(EDGES_REMOVED.name, "kind" => kind);
        Self {
            checked: metrics::counter!(EDGES_CHECKED.name),
            differences: kinds.map(|kind| (kind, of(kind))),
            corrected: metrics::counter!(EDGE_COUNTS_CORRECTED.name),
            follows_removed: removed("follow"),
            blocks_removed: removed("block"),
        }
    }

    fn count_comparison(&self, step: &EdgesVerified) {
        self.checked.increment(step.checked);
        for (kind, counter) in &self.differences {
            counter.increment(count(step.differences.iter().filter(|one| one.kind == *kind).count()));
        }
    }
}

impl std::fmt::Debug for UpkeepCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpkeepCounters").finish_non_exhaustive()
    }
}

const fn kind_name(kind: EdgeDifferenceKind) -> &'static str {
    match kind {
        EdgeDifferenceKind::NotInFollowing => "not_in_following",
        EdgeDifferenceKind::NotAmongFans => "not_among_fans",
        EdgeDifferenceKind::StrayInFollowing => "stray_in_following",
        EdgeDifferenceKind::StrayAmongFans => "stray_among_fans",
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
