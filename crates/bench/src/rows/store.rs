//! What the rows of both stores have in common: reads and changes, through the tiers and bare.

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
    rpc::versions::{cache_version, loaded},
    write::mutations::{Mutations, RecordWrite, WriteLimits},
};
use kith_store::{Stored, Timestamp, User, UserId, UserPatch, UserStore, Write};
use tokio::time::Instant;

use super::redis::Site;
use crate::{
    claims::Plan,
    ratio::{Pair, Pieces, Side, interleave},
};

/// Ids of one batch.
pub(super) const BATCH: usize = 100;
const LONG: Duration = Duration::from_secs(10);
/// Of changes.
const LIMITS: WriteLimits =
    WriteLimits { at_once: 256, wait: Duration::from_secs(1), takes: LONG, answer: LONG };

/// One side of a row that reads.
pub(super) trait Reads: Send + Sync + 'static {
    /// What was read.
    type Read: Send;
    /// Reads a user that is there.
    fn one(&self, id: i64) -> impl Future<Output = Result<Self::Read>> + Send;
    /// Reads users that are there, in one query.
    fn many(&self, ids: &[i64]) -> impl Future<Output = Result<Self::Read>> + Send;
}

/// One side of a row that writes.
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
    /// Empty.
    pub(super) fn over(store: &Arc<dyn UserStore>) -> Arc<Self> {
        let (node, policy) = (Node::local(1), Policy::new("user", User::weight));
        let cache = TieredCache::new(&node, policy, Arc::new(UserLoader(Arc::clone(store))));
        let mutations = Mutations::new(node.clone(), &LIMITS);
        Arc::new(Self { node, cache, store: Arc::clone(store), mutations })
    }

    /// Empty in memory, over the tier that nodes share.
    pub(super) fn among(store: &Arc<dyn UserStore>, site: &Site) -> Arc<Self> {
        let (node, policy) = (site.node().clone(), Policy::new("user", User::weight));
        let loader = Arc::new(UserLoader(Arc::clone(store)));
        let cache = TieredCache::shared(&node, policy, loader, site.sharing(), Arc::new(RecordCodec::USER));
        let mutations = Mutations::new(node.clone(), &LIMITS);
        Arc::new(Self { node, cache, store: Arc::clone(store), mutations })
    }

    /// Drops these users from all tiers before the store, and has memory tidied up: it is cold then, but no larger or smaller
    /// than that of a node that has run for a while.
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

    async fn one(&self, id: i64) -> Result<Self::Read> {
        let entry = self.cache.get(&UserId::new(id)?).await?.context("a user is missing")?;
        ensure!(entry.tier == Tier::Store, "a user was in memory");
        Ok(vec![entry])
    }

    async fn many(&self, ids: &[i64]) -> Result<Self::Read> {
        let ids: Vec<UserId> = ids.iter().map(|id| UserId::new(*id)).collect::<Result<_, _>>()?;
        let answers = self.cache.get_many(&ids, &Consistency::Cached).await.into_iter();
        let entries =
            answers.map(|answer| answer?.context("a user is missing")).collect::<Result<Vec<_>>>()?;
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

/// Times reads of one user after the other, each of another id.
pub(super) async fn read_one<R: Reads>(
    plan: &Plan,
    store: &Arc<dyn UserStore>,
    raw: &Arc<R>,
    users: i64,
) -> Result<Vec<Pair<f64>>> {
    let (pieces, reads) = plan.size((20, 100), (1, 10));
    let (tiered, mut seed) = (Tiered::over(store), 0);
    interleave(plan.rounds, async |side| {
        seed += 1;
        let ids = people::shuffled(users, seed);
        match side {
            Side::Baseline => time_one(Arc::clone(raw), ids, pieces, reads).await,
            Side::Kith => {
                tiered.forget(&ids).await?;
                time_one(Arc::clone(&tiered), ids, pieces, reads).await
            }
        }
    })
    .await
}

/// Times reads of a hundred users after the other, each of other ids.
pub(super) async fn read_many<R: Reads>(
    plan: &Plan,
    store: &Arc<dyn UserStore>,
    raw: &Arc<R>,
    users: i64,
) -> Result<Vec<Pair<f64>>> {
    let (pieces, reads) = plan.size((10, 10), (1, 2));
    let (tiered, mut seed) = (Tiered::over(store), 0);
    interleave(plan.rounds, async |side| {
        seed += 1;
        let ids = people::shuffled(users, seed);
        match side {
            Side::Baseline => time_many(Arc::clone(raw), ids, pieces, reads).await,
            Side::Kith => {
                tiered.forget(&ids).await?;
                time_many(Arc::clone(&tiered), ids, pieces, reads).await
            }
        }
    })
    .await
}

/// Microseconds of a read. Runs on a worker of the runtime, as calls to a node do. What was read is held to
/// the end: memory keeps it on one side, and on the other the allocator must not get the same warm bytes
/// back for every read.
pub(super) async fn time_one<R: Reads>(
    reader: Arc<R>,
    ids: Vec<i64>,
    pieces: usize,
    reads: usize,
) -> Result<f64> {
    let timing = tokio::spawn(async move {
        let mut held = Vec::with_capacity(pieces * reads);
        let mut taken = Pieces::begin();
        for ids in ids.chunks_exact(reads).take(pieces) {
            for id in ids {
                held.push(reader.one(*id).await?);
            }
            taken.end_piece(reads);
        }
        Ok(taken.nanos_an_operation() / 1e3)
    });
    timing.await?
}

async fn time_many<R: Reads>(reader: Arc<R>, ids: Vec<i64>, pieces: usize, reads: usize) -> Result<f64> {
    let timing = tokio::spawn(async move {
        let mut held = Vec::with_capacity(pieces * reads);
        let mut taken = Pieces::begin();
        for ids in ids.chunks_exact(reads * BATCH).take(pieces) {
            for ids in ids.chunks_exact(BATCH) {
                held.push(reader.many(ids).await?);
            }
            taken.end_piece(reads);
        }
        Ok(taken.nanos_an_operation() / 1e3)
    });
    timing.await?
}

/// Microseconds of a change out of many, one after the other.
pub(super) async fn time_updates<U: Updates>(
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
        self.0.user(*id).await.map(user).map_err(LoadError::new)
    }

    async fn load_many(
        &self,
        ids: &[UserId],
        _options: LoadOptions,
    ) -> Result<Vec<(UserId, Loaded<User>)>, LoadError> {
        let found = self.0.users(ids).await.map_err(LoadError::new)?;
        Ok(found.into_iter().map(|(id, stored)| (id, user(stored))).collect())
    }
}

fn user(stored: Stored<User>) -> Loaded<User> {
    loaded(stored, |user| user.version)
}
