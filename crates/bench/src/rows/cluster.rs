//! `GetUser` from a cluster node's memory over the same call to a node without peers.

use anyhow::Result;
use kith_lab_servers::people;

use super::loaded::{LoadedServer, cpu_micros};
use crate::{
    claims::{CLUSTER_CPU, Plan},
    results::Results,
    served::ServerProcess,
};

/// Runs the requested rows. No row runs unless there is a MongoDB and a Redis.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let (Some(_), Some(redis)) = (&plan.mongodb, &plan.redis) else { return Ok(()) };
    if !plan.wants(&CLUSTER_CPU) {
        return Ok(());
    }
    let ids = people::shuffled(plan.size(10_000, 200), 1);
    let database = format!("kith_bench_{}", std::process::id());
    let alone = LoadedServer::node(ServerProcess::kith(plan)?, None, &ids).await?;
    let among =
        LoadedServer::node(ServerProcess::kith_over(plan, &database, None, Some(redis))?, None, &ids).await?;
    // A cluster node has them in memory once it follows; it may have begun to just now.
    among.answers(&ids).await?;
    among.check_tier().await?;
    let rounds = cpu_micros(plan, &alone, &among).await?;
    alone.check_tier().await?;
    among.check_tier().await?;
    results.add(&CLUSTER_CPU, &rounds)
}
