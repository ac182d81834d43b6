//! The tier that nodes share over the Redis client.

mod applied;
mod filled;
mod hits;
mod propagation;
mod raw;
mod sequences;
mod site;
mod store;
mod totals;

use anyhow::Result;

use crate::{claims::Plan, results::Results};

pub(super) use raw::RawRedis;

/// Runs the requested rows. Without Redis, no row runs.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let Some(url) = &plan.redis else { return Ok(()) };
    hits::rows(plan, url, results).await?;
    propagation::rows(plan, url, results).await?;
    store::rows(plan, url, results).await?;
    sequences::rows(plan, url, results).await?;
    totals::rows(plan, results).await?;
    Ok(())
}
