//! Sequence numbers over INCR, each over its own connections.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use fred::interfaces::KeysInterface as _;
use kith_delivery::Sequences;
use kith_store::{SequenceName, SequenceStore};
use tokio::time::Instant;

use super::{raw::RawRedis, site::BenchCluster};
use crate::{
    cache_node::sequences,
    claims::{Plan, TAKE, TAKE_P99},
    ratio::{Side, each, interleave, nanos},
    results::Results,
    rows::{latency::Latency, mongodb::FilledDatabase},
};

/// A node that takes blocks from MongoDB, and a client for the same Redis.
struct SequenceStage {
    sequences: Sequences,
    name: SequenceName,
    raw: RawRedis,
}

impl SequenceStage {
    async fn new(url: &str, store: &Arc<dyn SequenceStore>) -> Result<Arc<Self>> {
        let cluster = BenchCluster::new(url);
        let raw = RawRedis::connect(url, &cluster.tag()).await?;
        let node = cluster.site().await?.cached;
        let sequences = sequences(cluster.options(), node, Arc::clone(store)).await?;
        Ok(Arc::new(Self { sequences, name: "take".parse()?, raw }))
    }

    async fn next(&self, side: Side) -> Result<()> {
        let number = match side {
            Side::Baseline => self.raw.client.incr(format!("{{{}}}:raw:take", self.raw.tag)).await?,
            Side::Kith => {
                let ranges = self.sequences.reserve(&self.name, 1, 0).await?;
                ranges.first().context("no number was reserved")?.first
            }
        };
        ensure!(number > 0_i64, "a number is {number}");
        Ok(())
    }
}

/// Runs the requested rows. Without MongoDB, no row runs.
pub(super) async fn rows(plan: &Plan, url: &str, results: &mut Results<'_>) -> Result<()> {
    let is_asked = plan.wants_any(&[&TAKE, &TAKE_P99]);
    let Some(uri) = plan.mongodb.as_ref().filter(|_| is_asked) else { return Ok(()) };
    let database = FilledDatabase::with(uri, 1).await?;
    let measured = measure(plan, url, &database.stores.sequences, results).await;
    database.remove().await?;
    measured
}

async fn measure(
    plan: &Plan,
    url: &str,
    store: &Arc<dyn SequenceStore>,
    results: &mut Results<'_>,
) -> Result<()> {
    let stage = SequenceStage::new(url, store).await?;
    let takes = plan.size(5_000, 100);
    let pairs = interleave(plan.rounds, async |side| one_caller(&stage, side, takes).await).await?;
    results.add(&TAKE, &each(&pairs, |latency| latency.p50))?;
    results.add(&TAKE_P99, &each(&pairs, |latency| latency.p99))
}

/// Takes numbers sequentially, on a runtime worker as calls to a node are.
async fn one_caller(stage: &Arc<SequenceStage>, side: Side, takes: usize) -> Result<Latency> {
    let stage = Arc::clone(stage);
    let timing = tokio::spawn(async move {
        let mut times = Vec::with_capacity(takes);
        for _ in 0..takes {
            let begun = Instant::now();
            stage.next(side).await?;
            times.push(nanos(begun.elapsed()) / 1e3);
        }
        Ok(Latency::of(times))
    });
    timing.await?
}
