//! An R-MAT graph, imported, over the same rows written bare.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use kith_store::{EdgeUpkeep, ImportedFollow};

use super::{
    cql::Keyspace,
    graph::{CHUNK, import, rmat},
    sqlite::{DataFile, write_rows},
};
use crate::{
    claims::{IMPORT_CQL, IMPORT_SQLITE, Plan},
    ratio::{Pair, Side, interleave, per_second},
    results::Results,
};

/// The most rounds: a million follows take minutes.
const ROUNDS: usize = 5;
/// Follows and places that are compared in one step.
const STEP: usize = 1_000;

/// Runs the requested rows.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    results.row(&IMPORT_SQLITE, of_sqlite(plan)).await?;
    if plan.cql.is_some() && plan.mongodb.is_some() {
        results.row(&IMPORT_CQL, Box::pin(of_cql(plan))).await?;
    }
    Ok(())
}

fn graph(plan: &Plan) -> Arc<[ImportedFollow]> {
    rmat(plan.size(1_000_000, 2_000), plan.size(100_000, 500)).into()
}

/// Each side fills a separate file, a new file in every round.
async fn of_sqlite(plan: &Plan) -> Result<Vec<Pair<f64>>> {
    let graph = graph(plan);
    interleave(plan.rounds.div_ceil(ROUNDS), async |side| {
        let file = DataFile::open().await?;
        match side {
            Side::Baseline => {
                let (options, _folder) = file.close().await;
                per_second(graph.len(), write_rows(options, Arc::clone(&graph), CHUNK)).await
            }
            Side::Kith => {
                let rate = per_second(graph.len(), import(&file.stores.follows, &graph)).await?;
                verify(&file.stores.edges, graph.len()).await?;
                file.close().await;
                Ok(rate)
            }
        }
    })
    .await
}

/// Each side fills a separate keyspace, a new keyspace in every round.
async fn of_cql(plan: &Plan) -> Result<Vec<Pair<f64>>> {
    let graph = graph(plan);
    interleave(plan.rounds.div_ceil(ROUNDS), async |side| {
        let keyspace = Keyspace::open(plan, IMPORT_CQL.name).await?.context("there is no CQL")?;
        let rate = match side {
            Side::Baseline => per_second(graph.len(), keyspace.raw.write_rows(&graph, CHUNK)).await?,
            Side::Kith => per_second(graph.len(), import(&keyspace.stores.follows, &graph)).await?,
        };
        eprintln!("import_cql, {side:?}: {rate:.0} follows/s");
        if side == Side::Kith {
            verify(&keyspace.stores.edges, graph.len()).await?;
        }
        keyspace.remove(plan).await?;
        Ok(rate)
    })
    .await
}

/// Makes sure that all follows are where they belong.
pub(super) async fn verify(edges: &Arc<dyn EdgeUpkeep>, follows: usize) -> Result<()> {
    let (mut after, mut checked) = (None, 0);
    loop {
        let step = edges.verify_edges(after.as_deref(), STEP, false).await?;
        ensure!(step.differences.is_empty(), "follows and their places differ: {:?}", step.differences);
        checked += step.checked;
        after = step.next;
        if after.is_none() {
            break;
        }
    }
    ensure!(usize::try_from(checked)? >= follows, "only {checked} of {follows} follows were looked at");
    Ok(())
}
