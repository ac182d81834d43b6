//! Counts commands that the store needs for a thousand messages to one group, besides those that store them,
//! by MongoDB's profiler.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, future::try_join_all, stream};
use mongodb::{
    Database,
    bson::{Document, doc},
};

use super::stage::{BATCH, GROUP, MessageStage, named, send_batch};
use crate::{
    claims::{APPEND_OPERATIONS, APPEND_OPERATIONS_OF_3, APPEND_OPERATIONS_STEPS, Plan},
    ratio::{Claim, Pair, count},
    results::Results,
};

/// Callers on each node. Their batches are few enough that all their messages may wait for one group
///.
const CALLERS: usize = 32;
const CALLERS_OF_BATCHES: usize = 8;
/// Bytes in the profile.
const PROFILE: i64 = 256 << 20;

/// Runs the requested rows. Without servers, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let cases: [(&Claim, usize, usize); 3] =
        [(&APPEND_OPERATIONS, 1, 1), (&APPEND_OPERATIONS_OF_3, 3, 1), (&APPEND_OPERATIONS_STEPS, 3, BATCH)];
    for (claim, nodes, step) in cases {
        if !plan.wants(claim) {
            continue;
        }
        let Some(stage) = MessageStage::start(plan, claim.name, nodes, 1).await? else { return Ok(()) };
        let numbers = AtomicU64::new(0);
        let steps = if step == 1 { plan.size(2_000, 100) } else { plan.size(200, 24) };
        let mut rounds = Vec::with_capacity(plan.rounds);
        for _ in 0..plan.rounds {
            rounds.push(counted(&stage, steps, step, &numbers).await?);
        }
        results.add(claim, &rounds)?;
        stage.remove(plan).await?;
    }
    Ok(())
}

/// Commands for a thousand messages: those that stored some, and all. Every message has to be stored.
async fn counted(stage: &MessageStage, steps: usize, step: usize, numbers: &AtomicU64) -> Result<Pair<f64>> {
    let database = stage.raw.database();
    profile(database, true).await?;
    let nodes = stage.nodes.len();
    let callers = if step == 1 { CALLERS } else { CALLERS_OF_BATCHES };
    // Each node has its own callers, so that a slow node does not get more callers than the others.
    let sends = (0..nodes).map(async |node| {
        let sends = (node..steps).step_by(nodes).map(|_| send(stage, node, step, numbers));
        stream::iter(sends).buffer_unordered(callers).try_collect::<()>().await
    });
    try_join_all(sends).await?;
    profile(database, false).await?;
    let all = profiled(database, doc! {}).await?;
    let stored = doc! { "$or": [{ "nModified": { "$gt": 0 } }, { "ninserted": { "$gt": 0 } }] };
    let stored = profiled(database, stored).await?;
    ensure!(stored > 0, "the profile has no command that stored a message");
    let of_a_thousand =
        |commands: u64| anyhow::Ok(count(usize::try_from(commands)?) * 1e3 / count(steps * step));
    Ok(Pair { baseline: of_a_thousand(stored)?, kith: of_a_thousand(all)? })
}

/// Sends so many messages to the group, by one call to this node.
async fn send(stage: &MessageStage, node: usize, messages: usize, numbers: &AtomicU64) -> Result<()> {
    let next = || named(GROUP, numbers.fetch_add(1, Ordering::Relaxed));
    let mut client = stage.client(node);
    if messages == 1 {
        client.send_message(next()).await?;
        return Ok(());
    }
    Ok(send_batch(&mut client, (0..messages).map(|_| next()).collect()).await?)
}

/// How many commands in the profile match.
pub(super) async fn profiled(database: &Database, such: Document) -> Result<u64> {
    Ok(database.collection::<Document>("system.profile").count_documents(such).await?)
}

/// Begins an empty profile with commands on messages, or ends it.
pub(super) async fn profile(database: &Database, on: bool) -> Result<()> {
    database.run_command(doc! { "profile": 0, "filter": "unset" }).await?;
    if on {
        database.collection::<Document>("system.profile").drop().await?;
        database.run_command(doc! { "create": "system.profile", "capped": true, "size": PROFILE }).await?;
        let messages = format!("{}.messages", database.name());
        database.run_command(doc! { "profile": 1, "filter": { "ns": messages } }).await?;
    }
    Ok(())
}
