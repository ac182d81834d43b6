//! The tier that nodes share over the Redis client.

mod filled;
mod hits;
mod raw;
mod sequences;
mod site;
mod store;

use anyhow::Result;

use crate::{claims::Plan, results::Results};

pub(super) use raw::RawRedis;

/// Runs the requested rows. Without Redis, no row runs.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let Some(url) = &plan.redis else { return Ok(()) };
    hits::rows(plan, url, results).await?;
    store::rows(plan, url, results).await?;
    sequences::rows(plan, url, results).await
}
