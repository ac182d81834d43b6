//! Relations: what answers cost, imports, lists, and follows, over bare parts.

mod answers;
mod common_following;
mod cql;
mod follows;
mod graph;
mod imports;
mod lists;
mod sqlite;

use anyhow::Result;

pub(super) use self::{
    answers::{EchoedAnswers, over_echo},
    cql::{Keyspace, NodeProcess, over_keyspace},
    sqlite::DataFile,
};
use crate::{claims::Plan, results::Results};

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    answers::rows(plan, results).await?;
    imports::rows(plan, results).await?;
    Box::pin(lists::rows(plan, results)).await?;
    Box::pin(follows::rows(plan, results)).await?;
    Box::pin(common_following::rows(plan, results)).await?;
    Ok(())
}
