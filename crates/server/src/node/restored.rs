//! Finishes a cluster's restore: an operator does this once between the restore and the start of the nodes.

use std::time::{Duration, SystemTime};

use kith_store::{RestoreSkips, Stores};
use tokio::time::{Instant, sleep};

use super::store::{OpenStore, StoreInfo};
use crate::{
    cluster::{DatabaseLease, PATIENCE},
    config::{Backend, Config},
    start_error::StartError,
};

/// Pause between two attempts to get the claim on the database.
const RETRY: Duration = Duration::from_millis(500);

/// The values with which the restored data continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRestore {
    /// Where the data is.
    pub place: String,
    /// The epoch after the restore.
    pub epoch: i64,
    /// Each kind's name and next id.
    pub next_ids: Vec<(&'static str, i64)>,
    /// How many sequences skipped numbers.
    pub sequences: u64,
}

/// Finishes restoring a backup that was begun at this time: raises the epoch, and skips ids and sequence
/// numbers, so that no token, id or number from the lost time gets a new meaning. May be repeated.
///
/// # Errors
/// If the store does not answer, contains no data of this program, is used by nodes, or the time is in the
/// future.
pub async fn finish_restore(
    config: &Config,
    backed_up_at: SystemTime,
) -> Result<FinishedRestore, StartError> {
    if config.store.backend == Backend::Sqlite {
        return Err(StartError::new("the data lie in a file, not in MongoDB: kith restore does all of it"));
    }
    if backed_up_at > SystemTime::now() {
        return Err(StartError::new("the time of the backup is in the future; write it in UTC"));
    }
    let store = OpenStore::open_idle(config).await?;
    let finished = finish(&store, config, RestoreSkips::since(backed_up_at)).await;
    store.close().await;
    finished
}

async fn finish(
    store: &OpenStore,
    config: &Config,
    skips: RestoreSkips,
) -> Result<FinishedRestore, StartError> {
    let (stores, info) = (store.stores(), store.info(config));
    if let Some(unfit) = info.unfit().await {
        return Err(unfit);
    }
    check_restored(&stores, &info).await?;
    while_alone(&stores, &info, continue_restored(store, &info, skips)).await
}

/// Does this work while no node can use the database.
pub(crate) async fn while_alone<T, E: From<StartError>>(
    stores: &Stores,
    info: &StoreInfo,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let lease = DatabaseLease::alone(stores);
    claim(&lease, info).await?;
    let done = tokio::select! {
        done = work => done,
        () = lease.keep() => Err(in_use(info).into()),
    };
    lease.release().await;
    done
}

/// Creates missing indexes, and lets the restored data continue above all that the lost time has used.
pub(crate) async fn continue_restored(
    store: &OpenStore,
    info: &StoreInfo,
    skips: RestoreSkips,
) -> Result<FinishedRestore, StartError> {
    match store.stores().migrations.restore_indexes().await {
        Ok(()) => skip(store, info, skips).await,
        Err(error) => Err(info.index_failure(&error).await),
    }
}

fn in_use(info: &StoreInfo) -> StartError {
    StartError::new(format!("nodes use {}: stop all of them first", info.data().place))
}

/// Fails if there is nothing that was restored, or a newer version wrote it.
async fn check_restored(stores: &Stores, info: &StoreInfo) -> Result<(), StartError> {
    let migrations = match stores.migrations.status().await {
        Ok(migrations) => migrations,
        Err(error) => return Err(info.failure(&error).await.line()),
    };
    if migrations.iter().all(|migration| migration.applied.is_none()) {
        let place = &info.data().place;
        return Err(StartError::new(format!("{place} contains no data of kith: restore the backup first")));
    }
    Ok(())
}

/// Waits until no node uses the database. The claim by nodes that have ended lasts for some seconds.
async fn claim(lease: &DatabaseLease, info: &StoreInfo) -> Result<(), StartError> {
    let begun = Instant::now();
    loop {
        match lease.acquire().await {
            Ok(true) => return Ok(()),
            Ok(false) if begun.elapsed() < PATIENCE => sleep(RETRY).await,
            Ok(false) => return Err(in_use(info)),
            Err(error) => return Err(info.failure(&error).await.line()),
        }
    }
}

#[cfg_attr(
    not(feature = "cluster"),
    expect(unused_variables, reason = "a single node's store skips nothing")
)]
async fn skip(
    store: &OpenStore,
    info: &StoreInfo,
    skips: RestoreSkips,
) -> Result<FinishedRestore, StartError> {
    let place = info.data().place.clone();
    match store {
        #[cfg(feature = "embedded")]
        OpenStore::Sqlite(_) => Err(StartError::new(format!("{place} is not the store of a cluster"))),
        #[cfg(feature = "cluster")]
        OpenStore::Cluster(handle) => match handle.finish_restore(skips).await {
            Ok(counters) => {
                let next_ids =
                    counters.next_ids.into_iter().map(|(kind, next)| (kind.name(), next)).collect();
                let (epoch, sequences) = (counters.epoch, counters.sequences);
                Ok(FinishedRestore { place, epoch, next_ids, sequences })
            }
            Err(error) => Err(info.failure(&error).await.line()),
        },
    }
}
