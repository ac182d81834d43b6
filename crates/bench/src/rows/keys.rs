//! Measures what a key costs a call: `GetUser` from the memory of a node that needs a key, over an open node.

use anyhow::Result;
use kith_lab_servers::people;

use super::loaded::{KEY, LoadedServer, cpu_micros};
use crate::{
    claims::{KEY_COST_CPU, Plan},
    results::Results,
    served::ServerProcess,
};

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants(&KEY_COST_CPU) {
        return Ok(());
    }
    let ids = people::shuffled(plan.size(10_000, 200), 1);
    let keyed = LoadedServer::node(ServerProcess::kith_with_key(plan, KEY)?, Some(KEY), &ids).await?;
    let open = LoadedServer::node(ServerProcess::kith(plan)?, None, &ids).await?;
    keyed.check_tier().await?;
    open.check_tier().await?;
    results.add(&KEY_COST_CPU, &cpu_micros(plan, &open, &keyed).await?)?;
    keyed.check_tier().await
}
