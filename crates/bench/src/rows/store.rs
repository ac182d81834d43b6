//! The common part of the rows for both stores: reads and changes, through the tiers and bare.

use std::{hint::black_box, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use kith_cache::{
    Change, Consistency, Entry, LoadError, LoadOptions, Loaded, Loader, Node, Policy, Tier, TieredCache,
};
use kith_lab_servers::people;
use kith_service::write::record_codec::RecordCodec;
use kith_service::{
    error::Error,
    rpc::versions::{cache_version, loaded, loaded_all},
    write::mutations::{Mutations, RecordWrite, WriteLimits},
};
use kith_store::{Timestamp, User, UserId, UserPatch, UserStore, Write};
use tokio::time::Instant;

use crate::{
    cache_node::CacheNode,
    claims::Plan,
    ratio::{Pair, Pieces, Side, interleave},
};

/// Ids in one batch.
pub(super) const BATCH: usize = 100;
const LONG: Duration = Duration::from_secs(10);
/// The limits for changes.
const LIMITS: WriteLimits =
    WriteLimits { at_once: 256, wait: Duration::from_secs(1), takes: LONG, answer: LONG };

/// One side in a row that reads.
pub(super) trait Reads: Send + Sync + 'static {
    /// The result of a read.
    type Read: Send;
    /// Reads one user, or [`BATCH`] in one query. All users exist.
    fn read(&self, ids: &[i64]) -> impl Future<Output = Result<Self::Read>> + Send;
}

/// One side in a row that writes.
pub(super) trait Updates: Send + Sync + 'static {
    /// Gives a user another shown name, durably, and returns when the record has been read back.
    fn rename(&self, id: i64, nick_name: String) -> impl Future<Output = Result<()>> + Send;
}

/// The tiers over a store, as a node puts users together.
#[derive(Clone, Debug)]
pub(super) struct Tiered {
    node: Node,
    cache: TieredCache<UserId, User>,
    store: Arc<dyn UserStore>,
    mutations: Mutations,
}

impl Tiered {
    /// An empty cache over the store.
    pub(super) fn over(store: &Arc<dyn UserStore>) -> Arc<Self> {
        let (node, policy) = (Node::local(1), Policy::new("user", User::weight));
        let cache = TieredCache::new(&node, policy, Arc::new(UserLoader(Arc::clone(store))));
        let mutations = Mutations::new(node.clone(), &LIMITS);
        Arc::new(Self { node, cache, store: Arc::clone(store), mutations })
    }

    /// Empty in memory, over the tier that nodes share.
    pub(super) fn among(store: &Arc<dyn UserStore>, cached: &CacheNode) -> Arc<Self> {
        let (node, policy) = (cached.node.clone(), Policy::new("user", User::weight));
        let loader = Arc::new(UserLoader(Arc::clone(store)));
        let cache = TieredCache::shared(&node, policy, loader, &cached.sharing, Arc::new(RecordCodec::USER));
        let mutations = Mutations::new(node.clone(), &LIMITS);
        Arc::new(Self { node, cache, store: Arc::clone(store), mutations })
    }

    /// Drops these users from all tiers before the store, and has memory tidied up: it is cold then, but no
    /// larger or smaller than that of a node that has run for a while.
    pub(super) async fn forget(&self, ids: &[i64]) -> Result<()> {
        let keys: Vec<_> = ids.iter().map(|id| Ok((UserId::new(*id)?, None))).collect::<Result<_>>()?;
        self.cache.invalidate(&keys).await?;
        let held: u64 = self.node.namespaces().iter().map(|namespace| namespace.stats().entries).sum();
        ensure!(held == 0, "{held} users are still in memory");
        Ok(())
    }
}

impl Reads for Tiered {
    type Read = Vec<Entry<User>>;

    async fn read(&self, ids: &[i64]) -> Result<Self::Read> {
        let entries = if let [id] = ids {
            vec![self.cache.get(&UserId::new(*id)?).await?.context("a user is missing")?]
        } else {
            let ids: Vec<UserId> = ids.iter().map(|id| UserId::new(*id)).collect::<Result<_, _>>()?;
            let answers = self.cache.get_many(&ids, &Consistency::Cached).await.into_iter();
            answers.map(|answer| answer?.context("a user is missing")).collect::<Result<Vec<_>>>()?
        };
        ensure!(entries.iter().all(|entry| entry.tier == Tier::Store), "a user was in memory");
        Ok(entries)
    }
}

impl Updates for Tiered {
    async fn rename(&self, id: i64, nick_name: String) -> Result<()> {
        let key = UserId::new(id)?;
        let patch = UserPatch { nick_name: Some(nick_name.into()), ..UserPatch::default() };
        let (this, store) = (self.clone(), Arc::clone(&self.store));
        let write = Box::pin(async move { store.update_user(key, patch, Write::at(Timestamp::now())).await });
        let work = async move {
            let written = this.mutations.write(&this.cache, RecordWrite { key, write, change: put }).await;
            written.map_err(|error| Error::store("user", &error))
        };
        black_box(self.mutations.run(Instant::now() + LIMITS.takes, work).await?);
        Ok(())
    }
}

fn put(user: &Arc<User>) -> Change<User> {
    Change::Put { value: Arc::clone(user), version: cache_version(user.version) }
}

/// How much is read in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadSizes {
    /// Users in one read: 1 or [`BATCH`].
    pub(super) batch: usize,
    pub(super) pieces: usize,
    /// Reads in each piece.
    pub(super) reads: usize,
}

impl ReadSizes {
    /// Sizes for reads of one user.
    pub(super) const fn one(plan: &Plan) -> Self {
        let (pieces, reads) = plan.size((20, 100), (1, 10));
        Self { batch: 1, pieces, reads }
    }

    /// Sizes for reads of a hundred users.
    pub(super) const fn many(plan: &Plan) -> Self {
        let (pieces, reads) = plan.size((10, 10), (1, 2));
        Self { batch: BATCH, pieces, reads }
    }
}

/// Times sequential reads, each with other ids, which the tiers do not have.
pub(super) async fn compare_reads<R: Reads>(
    plan: &Plan,
    tiered: &Arc<Tiered>,
    raw: &Arc<R>,
    users: i64,
    sizes: ReadSizes,
) -> Result<Vec<Pair<f64>>> {
    let mut seed = 0;
    interleave(plan.rounds, async |side| {
        seed += 1;
        let ids = people::shuffled(users, seed);
        match side {
            Side::Baseline => time_reads(Arc::clone(raw), ids, sizes).await,
            Side::Kith => {
                tiered.forget(&ids).await?;
                time_reads(Arc::clone(tiered), ids, sizes).await
            }
        }
    })
    .await
}

/// Microseconds for a read. Runs on a runtime worker, as calls to a node do. The results are held to the end:
/// memory keeps them on one side, and on the other the allocator must not get the same warm bytes back for
/// every read.
async fn time_reads<R: Reads>(reader: Arc<R>, ids: Vec<i64>, sizes: ReadSizes) -> Result<f64> {
    let ReadSizes { batch, pieces, reads } = sizes;
    let timing = tokio::spawn(async move {
        let mut held = Vec::with_capacity(pieces * reads);
        let mut taken = Pieces::begin();
        for ids in ids.chunks_exact(reads * batch).take(pieces) {
            for ids in ids.chunks_exact(batch) {
                held.push(reader.read(ids).await?);
            }
            taken.end_piece(reads);
        }
        Ok(taken.nanos_an_operation() / 1e3)
    });
    timing.await?
}

/// Times sequential changes, each for another user.
pub(super) async fn compare_updates<U: Updates>(
    plan: &Plan,
    tiered: &Arc<Tiered>,
    raw: &Arc<U>,
    users: i64,
) -> Result<Vec<Pair<f64>>> {
    let (pieces, writes) = plan.size((20, 25), (1, 5));
    interleave(plan.rounds, async |side| {
        let ids = people::shuffled(users, 1);
        match side {
            Side::Baseline => time_updates(Arc::clone(raw), ids, pieces, writes).await,
            Side::Kith => time_updates(Arc::clone(tiered), ids, pieces, writes).await,
        }
    })
    .await
}

/// Microseconds for a change among many sequential changes.
async fn time_updates<U: Updates>(
    writer: Arc<U>,
    ids: Vec<i64>,
    pieces: usize,
    writes: usize,
) -> Result<f64> {
    let timing = tokio::spawn(async move {
        let mut taken = Pieces::begin();
        for (number, ids) in ids.chunks_exact(writes).take(pieces).enumerate() {
            for id in ids {
                writer.rename(*id, format!("Name {number}")).await?;
            }
            taken.end_piece(writes);
        }
        Ok(taken.nanos_an_operation() / 1e3)
    });
    timing.await?
}

/// Loads users as the node does.
#[derive(Debug)]
struct UserLoader(Arc<dyn UserStore>);

#[async_trait]
impl Loader<UserId, User> for UserLoader {
    async fn load(&self, id: &UserId, _options: LoadOptions) -> Result<Loaded<User>, LoadError> {
        self.0.user(*id).await.map(loaded).map_err(LoadError::new)
    }

    async fn load_many(
        &self,
        ids: &[UserId],
        _options: LoadOptions,
    ) -> Result<Vec<(UserId, Loaded<User>)>, LoadError> {
        loaded_all(self.0.users(ids).await)
    }
}
