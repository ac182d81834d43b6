//! Measures Receive streams: what ten thousand streams cost a node, how fast messages reach them, and how
//! they resume after the node's death. Over bare tonic streams, and over PUBLISH and SUBSCRIBE.

mod deliver;
mod group;
mod pubsub;
mod receivers;
mod resume;
mod stage;
mod stream;

use std::sync::Arc;

use anyhow::{Result, ensure};

use kith_lab_servers::usage;

use self::{
    receivers::Receivers,
    stage::{BareServers, ReceiveStage},
};
use crate::{
    claims::{
        DELIVER_P99, GROUP_100K, GROUP_100K_CPU, Plan, RECEIVE_AGAIN, RECEIVE_AGAIN_P99, RECEIVE_MEMORY,
    },
    ratio::Pair,
    results::Results,
};

/// The most connections to Redis that all streams on a node share.
const CONNECTIONS_MAX: usize = 4;

/// Runs the requested rows. Without servers, no row runs.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants_any(&[&RECEIVE_MEMORY, &DELIVER_P99, &RECEIVE_AGAIN, &RECEIVE_AGAIN_P99])
        && let Some(mut stage) = ReceiveStage::start(plan, "receive", plan.size(10_000, 60)).await?
    {
        streams(plan, &mut stage, results).await?;
        stage.remove(plan).await?;
    }
    if plan.wants_any(&[&GROUP_100K, &GROUP_100K_CPU]) {
        Box::pin(group::rows(plan, results)).await?;
    }
    Ok(())
}

async fn streams(plan: &Plan, stage: &mut ReceiveStage, results: &mut Results<'_>) -> Result<()> {
    let bare = BareServers::start(1)?;
    let baseline = bare_memory(&bare, stage.users).await?;
    drop(bare);
    let (before, connections) =
        (usage::resident_mib(stage.nodes[0].served.id())?, stage.redis_connections().await?);
    let receivers = Arc::new(Receivers::open(stage, stage.users).await?);
    let taken = usage::resident_mib(stage.nodes[0].served.id())? - before;
    let opened = stage.redis_connections().await?.saturating_sub(connections);
    ensure!(opened <= CONNECTIONS_MAX, "the streams take {opened} connections to Redis");
    results.add(&RECEIVE_MEMORY, &[Pair { baseline, kith: kib_each(taken, stage.users) }])?;
    results.row(&DELIVER_P99, deliver::measure(plan, stage, &receivers)).await?;
    if plan.wants_any(&[&RECEIVE_AGAIN, &RECEIVE_AGAIN_P99]) {
        let resumed = resume::measure(plan, stage, &receivers).await?;
        let (seconds, others_ms): (Vec<_>, Vec<_>) =
            resumed.iter().map(|resumed| (resumed.seconds, resumed.others_ms)).unzip();
        results.add(&RECEIVE_AGAIN, &seconds)?;
        results.add(&RECEIVE_AGAIN_P99, &others_ms)?;
    }
    receivers.ensure_complete().await
}

/// KiB that a bare tonic server takes for each of `streams` streams.
async fn bare_memory(bare: &BareServers, streams: i64) -> Result<f64> {
    let before = usage::resident_mib(bare.servers[0].id())?;
    let _open = bare.open(streams).await?;
    Ok(kib_each(usage::resident_mib(bare.servers[0].id())? - before, streams))
}

#[expect(clippy::cast_precision_loss, reason = "thousands of streams")]
fn kib_each(mib: f64, streams: i64) -> f64 {
    mib * 1024.0 / streams as f64
}
