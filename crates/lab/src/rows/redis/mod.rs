//! The tier that nodes share over the client of Redis.

mod applied;
mod hits;
mod packed;
mod raw;
mod site;
mod store;
mod told;

use anyhow::Result;

use crate::{bench::Plan, ratio::Row};

pub(super) use packed::UserCodec;
pub(super) use site::Site;

/// Runs what is asked for; nothing where there is no Redis.
pub(crate) async fn rows(plan: &Plan) -> Result<Vec<Row>> {
    let Some(url) = &plan.redis else { return Ok(Vec::new()) };
    let mut rows = hits::rows(plan, url).await?;
    rows.extend(told::rows(plan, url).await?);
    rows.extend(store::rows(plan, url).await?);
    Ok(rows)
}
