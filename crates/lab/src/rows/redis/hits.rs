//! What Redis answers.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use anyhow::{Context as _, Result, ensure};
use kith_cache::{Consistency, Policy, Tier, TieredCache, remote::address};
use kith_store::User;
use tokio::time::Instant;

use super::{
    packed::UserCodec,
    raw::RawRedis,
    site::{Place, Site},
};
use crate::{
    bench::{Plan, REDIS_100, REDIS_HIT, REDIS_HIT_P99},
    people,
    ratio::{Side, each, interleave, nanos},
    results::Results,
    rows::{latency::Latency, memory::Same},
};

/// Keys of one call.
const BATCH: usize = 100;

/// A node with an empty memory, records in Redis that another left there, and a client that reads the same bytes.
struct Stage {
    site: Site,
    cache: TieredCache<i64, User>,
    raw: RawRedis,
    /// The first record that was not read yet: each is read once, so that memory never has to be emptied.
    next: AtomicI64,
}

impl Stage {
    async fn new(url: &str, users: i64) -> Result<Arc<Self>> {
        let place = Place::new(url);
        let (filler, site) = (place.site().await?, place.site().await?);
        let user = Arc::new(people::user(1)?);
        let cache = |site: &Site| {
            // Nothing is refreshed while it is timed.
            let policy = Policy { early_refresh: 2.0, ..Policy::new("user", User::weight) };
            let loader = Arc::new(Same(Arc::clone(&user)));
            TieredCache::shared(&site.node, policy, loader, &site.sharing, Arc::new(UserCodec))
        };
        let (filling, cache) = (cache(&filler), cache(&site));
        let keys: Vec<i64> = (1..=users).collect();
        for keys in keys.chunks(BATCH) {
            for answer in filling.get_many(keys, &Consistency::Cached).await {
                ensure!(answer?.is_some(), "a user is missing");
            }
        }
        let raw = RawRedis::connect(url, &place.tag()).await?;
        Ok(Arc::new(Self { site, cache, raw, next: AtomicI64::new(1) }))
    }

    /// So many records that were not read yet.
    fn take(&self, count: i64) -> Vec<i64> {
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        (first..first + count).collect()
    }

    async fn hit(&self, key: i64) -> Result<()> {
        let entry = self.cache.get(&key).await?.context("a user is missing")?;
        ensure!(entry.tier == Tier::Redis, "a user did not come from Redis");
        black_box(entry);
        Ok(())
    }

    async fn hits(&self, keys: &[i64]) -> Result<()> {
        for entry in black_box(self.cache.get_many(keys, &Consistency::Cached).await) {
            let entry = entry?.context("a user is missing")?;
            ensure!(entry.tier == Tier::Redis, "a user did not come from Redis");
        }
        Ok(())
    }

    fn key(&self, key: i64) -> String {
        format!("{{{}}}:{}", self.raw.tag, address(self.site.node.epoch(), "user", &key))
    }
}

pub(super) async fn rows(plan: &Plan, url: &str, results: &mut Results<'_>) -> Result<()> {
    let (one, many) = (plan.wants(&REDIS_HIT) || plan.wants(&REDIS_HIT_P99), plan.wants(&REDIS_100));
    if !(one || many) {
        return Ok(());
    }
    let (reads, batches) = (plan.size(2_000, 100), plan.size(20, 2));
    let rounds = i64::try_from(plan.rounds)?;
    // Each side of every round reads others.
    let users = 2 * rounds * (reads + batches * i64::try_from(BATCH)?);
    let stage = Stage::new(url, users).await?;
    if one {
        let pairs = interleave(plan.rounds, async |side| time_one(&stage, side, reads).await).await?;
        results.add(&REDIS_HIT, &each(&pairs, |latency| latency.p50))?;
        results.add(&REDIS_HIT_P99, &each(&pairs, |latency| latency.p99))?;
    }
    if many {
        let keys = batches * i64::try_from(BATCH)?;
        let pairs = interleave(plan.rounds, async |side| time_many(&stage, side, keys).await).await?;
        results.add(&REDIS_100, &each(&pairs, |latency| latency.p50))?;
    }
    Ok(())
}

/// Reads one after the other, each of another key, on a worker of the runtime as calls to a node are. What was
/// read by hand is held to the end, as memory holds it.
async fn time_one(stage: &Arc<Stage>, side: Side, reads: i64) -> Result<Latency> {
    let (stage, keys) = (Arc::clone(stage), stage.take(reads));
    let timing = tokio::spawn(async move {
        let (mut times, mut held) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for key in &keys {
            let begun = Instant::now();
            match side {
                Side::Baseline => held.push(Arc::new(stage.raw.user(stage.key(*key)).await?)),
                Side::Kith => stage.hit(*key).await?,
            }
            times.push(nanos(begun.elapsed()) / 1e3);
        }
        Ok(Latency::of(times))
    });
    timing.await?
}

async fn time_many(stage: &Arc<Stage>, side: Side, keys: i64) -> Result<Latency> {
    let (stage, keys) = (Arc::clone(stage), stage.take(keys));
    let timing = tokio::spawn(async move {
        let (mut times, mut held) = (Vec::new(), Vec::new());
        for keys in keys.chunks_exact(BATCH) {
            let begun = Instant::now();
            match side {
                Side::Baseline => {
                    let keys = keys.iter().map(|key| stage.key(*key)).collect();
                    held.extend(stage.raw.users(keys).await?.into_iter().map(Arc::new));
                }
                Side::Kith => stage.hits(keys).await?,
            }
            times.push(nanos(begun.elapsed()) / 1e3);
        }
        Ok(Latency::of(times))
    });
    timing.await?
}
