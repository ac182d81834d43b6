//! Measures answers from Redis.

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

pub(super) async fn rows(plan: &Plan, url: &str, results: &mut Results<'_>) -> Result<()> {
    let one = plan.wants_any(&[&REDIS_HIT, &REDIS_HIT_P99]);
    if !one && !plan.wants(&REDIS_100) {
        return Ok(());
    }
    let (reads, batches) = (plan.size(2_000, 100), plan.size(20, 2));
    let rounds = i64::try_from(plan.rounds)?;
    // Each side in every round reads other records.
    let users = 2 * rounds * (reads + batches * i64::try_from(BATCH)?);
    let policy = Policy::new("user", User::weight);
    let stage = FilledRedis::new(url, users, policy, people::user(1)?, RecordCodec::USER).await?;
    let stage = Arc::new(stage);
    if one {
        let pairs = interleave(plan.rounds, async |side| time(&stage, side, reads, 1).await).await?;
        results.add(&REDIS_HIT, &each(&pairs, |latency| latency.p50))?;
        results.add(&REDIS_HIT_P99, &each(&pairs, |latency| latency.p99))?;
    }
    let keys = batches * i64::try_from(BATCH)?;
    let many = async |side| Ok(time(&stage, side, keys, BATCH).await?.p50);
    results.row(&REDIS_100, interleave(plan.rounds, many)).await
}

/// Reads keys that were not read before, `batch` at a time, on a runtime worker as calls to a node are. The
/// results read by hand are held to the end, as memory holds them.
async fn time(stage: &Arc<FilledRedis<User>>, side: Side, keys: i64, batch: usize) -> Result<Latency> {
    let (stage, keys) = (Arc::clone(stage), stage.take(keys));
    let timing = tokio::spawn(async move {
        let (mut times, mut held) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for keys in keys.chunks_exact(batch) {
            let begun = Instant::now();
            match (side, keys) {
                (Side::Baseline, [key]) => held.push(Arc::new(stage.raw.user(stage.key(*key)).await?)),
                (Side::Baseline, keys) => {
                    let keys = keys.iter().map(|key| stage.key(*key)).collect();
                    held.extend(stage.raw.users(keys).await?.into_iter().map(Arc::new));
                }
                (Side::Kith, [key]) => drop(stage.hit(*key).await?),
                (Side::Kith, keys) => stage.hits(keys).await?,
            }
            times.push(nanos(begun.elapsed()) / 1e3);
        }
        Ok(Latency::of(times))
    });
    timing.await?
}
