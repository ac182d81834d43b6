//! An R-MAT graph, imported, over the same rows written bare.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use kith_store::{EdgeUpkeep, ImportedFollow};
use tokio::time::Instant;

use super::{
    cql::Keyspace,
    graph::{CHUNK, import, rmat},
    sqlite::{DataFile, write_rows},
};
use crate::{
    claims::{IMPORT_CQL, IMPORT_SQLITE, Plan},
    ratio::{Side, count, interleave},
    results::Results,
};

/// Rounds of other rows for one of these: a million follows take minutes.
const ROUNDS: usize = 5;
/// Follows and places that are compared in one step.
const STEP: usize = 1_000;

/// Runs what is asked for.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants(&IMPORT_SQLITE) {
        of_sqlite(plan, &graph(plan), results).await?;
    }
    if plan.wants(&IMPORT_CQL) && plan.cql.is_some() && plan.mongodb.is_some() {
        of_cql(plan, &graph(plan), results).await?;
    }
    Ok(())
}

fn graph(plan: &Plan) -> Arc<[ImportedFollow]> {
    rmat(plan.size(1_000_000, 2_000), plan.size(100_000, 500)).into()
}

/// Each side fills a file of its own, in every round a new one.
async fn of_sqlite(plan: &Plan, graph: &Arc<[ImportedFollow]>, results: &mut Results<'_>) -> Result<()> {
    let pairs = interleave(plan.rounds.div_ceil(ROUNDS), async |side| {
        let file = DataFile::open().await?;
        match side {
            Side::Baseline => {
                let (options, _folder) = file.close().await;
                let begun = Instant::now();
                write_rows(options, Arc::clone(graph), CHUNK).await?;
                Ok(count(graph.len()) / begun.elapsed().as_secs_f64())
            }
            Side::Kith => {
                let begun = Instant::now();
                import(&file.stores.follows, graph).await?;
                let rate = count(graph.len()) / begun.elapsed().as_secs_f64();
                verify(&file.stores.edges, graph.len()).await?;
                file.close().await;
                Ok(rate)
            }
        }
    });
    results.add(&IMPORT_SQLITE, &pairs.await?)
}

/// Each side fills a keyspace of its own, in every round a new one.
async fn of_cql(plan: &Plan, graph: &Arc<[ImportedFollow]>, results: &mut Results<'_>) -> Result<()> {
    let pairs = interleave(plan.rounds.div_ceil(ROUNDS), async |side| {
        let keyspace = Keyspace::open(plan, IMPORT_CQL.name).await?.context("there is no CQL")?;
        let begun = Instant::now();
        match side {
            Side::Baseline => keyspace.raw.write_rows(graph, CHUNK).await?,
            Side::Kith => import(&keyspace.stores.follows, graph).await?,
        }
        let rate = count(graph.len()) / begun.elapsed().as_secs_f64();
        eprintln!("import_cql, {side:?}: {rate:.0} follows/s");
        if side == Side::Kith {
            verify(&keyspace.stores.edges, graph.len()).await?;
        }
        keyspace.remove(plan).await?;
        Ok(rate)
    });
    results.add(&IMPORT_CQL, &pairs.await?)
}

/// Makes sure that all follows stand where they belong.
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
