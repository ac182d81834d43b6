//! The embedded store over rusqlite.

mod raw;

use std::{path::Path, sync::Arc};

use anyhow::Result;
use kith_lab_servers::people;
use kith_store::UserStore;
use kith_store_sqlite::{SqliteHandle, SqliteOptions, open};
use tempfile::TempDir;
use tokio::{task::JoinSet, time::Instant};

use self::raw::{RawReaders, RawRenames};
use super::store::{Tiered, Updates, read_many, read_one};
use crate::{
    claims::{Plan, STORE_100_SQLITE, STORE_ONE_SQLITE, UPDATE_SQLITE},
    ratio::{Side, count, interleave},
    results::Results,
};

/// Callers that change users at the same time.
const CALLERS: usize = 64;

/// Runs what is asked for.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants(&STORE_ONE_SQLITE) || plan.wants(&STORE_100_SQLITE) {
        reads(plan, results).await?;
    }
    if plan.wants(&UPDATE_SQLITE) {
        updates(plan, results).await?;
    }
    Ok(())
}

/// Both sides read the same file, by as many threads.
async fn reads(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let users = plan.size(20_000, 400);
    let file = UserFile::filled(users).await?;
    let store = &file.store;
    let raw = Arc::new(RawReaders::start(&file.options)?);
    if plan.wants(&STORE_ONE_SQLITE) {
        results.add(&STORE_ONE_SQLITE, &read_one(plan, store, &raw, users).await?)?;
    }
    if plan.wants(&STORE_100_SQLITE) {
        results.add(&STORE_100_SQLITE, &read_many(plan, store, &raw, users).await?)?;
    }
    file.handle.close().await;
    Ok(())
}

/// Each side writes a file of its own, made alike.
async fn updates(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let users = plan.size(20_000, 400);
    let ours = UserFile::filled(users).await?;
    let theirs = UserFile::filled(users).await?;
    theirs.handle.close().await;
    let raw = Arc::new(RawRenames::start(&theirs.options)?);
    let tiered = Tiered::over(&ours.store);
    let writes = plan.size(400, 4);
    let pairs = interleave(plan.rounds, async |side| match side {
        Side::Baseline => writes_a_second(&raw, users, writes).await,
        Side::Kith => writes_a_second(&tiered, users, writes).await,
    });
    results.add(&UPDATE_SQLITE, &pairs.await?)?;
    drop(tiered);
    ours.handle.close().await;
    Ok(())
}

/// Lets every caller change `writes` users, one after the other.
async fn writes_a_second<U: Updates>(writer: &Arc<U>, users: i64, writes: usize) -> Result<f64> {
    let ids: Arc<[i64]> = people::shuffled(users, 1).into();
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (writer, ids) = (Arc::clone(writer), Arc::clone(&ids));
        callers.spawn(async move {
            for write in 0..writes {
                let id = ids[(caller * writes + write) % ids.len()];
                writer.rename(id, format!("Name {write}")).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(count(CALLERS * writes) / begun.elapsed().as_secs_f64())
}

/// An embedded store with users in it, in a folder that goes with it.
#[derive(Debug)]
struct UserFile {
    options: SqliteOptions,
    store: Arc<dyn UserStore>,
    handle: SqliteHandle,
    _folder: TempDir,
}

impl UserFile {
    async fn filled(users: i64) -> Result<Self> {
        let folder = TempDir::new()?;
        let options = SqliteOptions::new(Path::new(folder.path()).join("kith.db"));
        let handle = open(options.clone()).await?;
        let stores = handle.stores();
        stores.migrations.migrate().await?;
        people::fill(&stores.users, users).await?;
        Ok(Self { options, store: stores.users, handle, _folder: folder })
    }
}
