//! What Redis answers.

use std::sync::Arc;

use anyhow::Result;
use kith_cache::Policy;
use kith_lab_servers::people;
use kith_service::write::record_codec::RecordCodec;
use kith_store::User;
use tokio::time::Instant;

use super::filled::{BATCH, FilledRedis};
use crate::{
    claims::{Plan, REDIS_100, REDIS_HIT, REDIS_HIT_P99},
    ratio::{Side, each, interleave, nanos},
    results::Results,
    rows::latency::Latency,
};

async fn filled(url: &str, users: i64) -> Result<Arc<FilledRedis<User>>> {
    let policy = Policy::new("user", User::weight);
    let filled = FilledRedis::new(url, users, policy, people::user(1)?, RecordCodec::USER).await?;
    Ok(Arc::new(filled))
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
    let stage = filled(url, users).await?;
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
async fn time_one(stage: &Arc<FilledRedis<User>>, side: Side, reads: i64) -> Result<Latency> {
    let (stage, keys) = (Arc::clone(stage), stage.take(reads));
    let timing = tokio::spawn(async move {
        let (mut times, mut held) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for key in &keys {
            let begun = Instant::now();
            match side {
                Side::Baseline => held.push(Arc::new(stage.raw.user(stage.key(*key)).await?)),
                Side::Kith => drop(stage.hit(*key).await?),
            }
            times.push(nanos(begun.elapsed()) / 1e3);
        }
        Ok(Latency::of(times))
    });
    timing.await?
}

async fn time_many(stage: &Arc<FilledRedis<User>>, side: Side, keys: i64) -> Result<Latency> {
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
