//! `GetUser` from memory over a bare tonic server that answers the same request with the same message.

use anyhow::Result;
use kith_lab_servers::people;

use super::loaded::{LoadedServer, cpu_micros};
use crate::{
    claims::{GET_USER_CPU, Plan},
    results::Results,
    served::ServerProcess,
};

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants(&GET_USER_CPU) {
        return Ok(());
    }
    let ids = people::shuffled(plan.size(10_000, 200), 1);
    let kith = LoadedServer::node(ServerProcess::kith(plan)?, None, &ids).await?;
    let echo = LoadedServer::echo(ServerProcess::echo()?, &kith, &ids).await?;
    kith.check_tier().await?;
    results.add(&GET_USER_CPU, &cpu_micros(plan, &echo, &kith).await?)?;
    kith.check_tier().await
}
