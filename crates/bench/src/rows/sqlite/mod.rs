//! The embedded store over rusqlite.

mod raw;

use std::sync::Arc;

use anyhow::Result;
use kith_lab_servers::people;

use self::raw::{RawReaders, RawRenames};
use super::{
    relations::DataFile,
    store::{ReadSizes, Tiered, Updates, compare_reads},
};
use crate::{
    claims::{Plan, STORE_100_SQLITE, STORE_ONE_SQLITE, UPDATE_SQLITE},
    load::at_once,
    ratio::{Pair, Side, interleave, per_second},
    results::Results,
};

/// Callers that change users at the same time.
const CALLERS: usize = 64;

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants_any(&[&STORE_ONE_SQLITE, &STORE_100_SQLITE]) {
        reads(plan, results).await?;
    }
    results.row(&UPDATE_SQLITE, updates(plan)).await
}

/// Both sides read the same file, by as many threads.
async fn reads(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let users = plan.size(20_000, 400);
    let file = filled(users).await?;
    let (tiered, raw) = (Tiered::over(&file.stores.users), Arc::new(RawReaders::start(&file.options)?));
    let one = compare_reads(plan, &tiered, &raw, users, ReadSizes::one(plan));
    results.row(&STORE_ONE_SQLITE, one).await?;
    let many = compare_reads(plan, &tiered, &raw, users, ReadSizes::many(plan));
    results.row(&STORE_100_SQLITE, many).await?;
    drop(tiered);
    file.close().await;
    Ok(())
}

/// Each side writes to its own file, made alike.
async fn updates(plan: &Plan) -> Result<Vec<Pair<f64>>> {
    let users = plan.size(20_000, 400);
    let (ours, theirs) = (filled(users).await?, filled(users).await?);
    let (options, _folder) = theirs.close().await;
    let raw = Arc::new(RawRenames::start(&options)?);
    let tiered = Tiered::over(&ours.stores.users);
    let writes = plan.size(400, 4);
    let pairs = interleave(plan.rounds, async |side| match side {
        Side::Baseline => writes_a_second(&raw, users, writes).await,
        Side::Kith => writes_a_second(&tiered, users, writes).await,
    });
    let pairs = pairs.await?;
    drop(tiered);
    ours.close().await;
    Ok(pairs)
}

/// Lets every caller change `writes` users in sequence.
async fn writes_a_second<U: Updates>(writer: &Arc<U>, users: i64, writes: usize) -> Result<f64> {
    let ids: Arc<[i64]> = people::shuffled(users, 1).into();
    let callers = at_once(CALLERS, |caller| {
        let (writer, ids) = (Arc::clone(writer), Arc::clone(&ids));
        async move {
            for write in 0..writes {
                let id = ids[(caller * writes + write) % ids.len()];
                writer.rename(id, format!("Name {write}")).await?;
            }
            Ok(())
        }
    });
    per_second(CALLERS * writes, callers).await
}

/// An embedded store with users in it.
async fn filled(users: i64) -> Result<DataFile> {
    let file = DataFile::open().await?;
    people::fill(&file.stores.users, users).await?;
    Ok(file)
}
