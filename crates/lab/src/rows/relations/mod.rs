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
    cql::{Keyspace, Node},
    sqlite::DataFile,
};
use crate::{bench::Plan, ratio::Row};

/// Runs what is asked for.
pub(crate) async fn rows(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = answers::rows(plan).await?;
    rows.extend(imports::rows(plan).await?);
    rows.extend(Box::pin(lists::rows(plan)).await?);
    rows.extend(Box::pin(follows::rows(plan)).await?);
    rows.extend(Box::pin(common_following::rows(plan)).await?);
    Ok(rows)
}
