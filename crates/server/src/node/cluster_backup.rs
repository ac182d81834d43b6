//! Backups of a cluster's databases, and how they are restored.

use std::path::Path;

use kith_store::{RestoreSkips, StoreError};
pub use kith_store_cluster::backup::{BackupManifest, BackupProgress, ReportProgress};
use kith_store_cluster::{ClusterHandle, backup::BackupError, verify_backup};

use super::{
    restored::{FinishedRestore, continue_restored, while_alone},
    store::{OpenStore, StoreInfo},
};
use crate::{config::Config, start_error::StartError};

/// Why a backup was not taken or not restored.
#[derive(Debug)]
pub enum ClusterBackupError {
    /// Nothing was begun.
    Refused(StartError),
    /// It failed while it ran. A restore has to be repeated then: no node starts before.
    Failed(StartError),
}

impl From<StartError> for ClusterBackupError {
    fn from(line: StartError) -> Self {
        Self::Refused(line)
    }
}

/// Writes a backup to a new folder, also while nodes serve.
///
/// # Errors
/// If a store does not answer, or the folder cannot be written; then there is no backup.
pub async fn back_up(
    config: &Config,
    to: &Path,
    report: ReportProgress<'_>,
) -> Result<BackupManifest, ClusterBackupError> {
    let store = OpenStore::open_idle(config).await?;
    let taken = take(&store, config, to, report).await;
    store.close().await;
    taken
}

async fn take(
    store: &OpenStore,
    config: &Config,
    to: &Path,
    report: ReportProgress<'_>,
) -> Result<BackupManifest, ClusterBackupError> {
    let info = store.info(config);
    if let Some(unfit) = info.unfit().await {
        return Err(unfit.into());
    }
    match handle(store)?.back_up(to, report).await {
        Ok(manifest) => Ok(manifest),
        Err(error) => Err(failure(error, &info).await),
    }
}

/// How a restore ended.
#[derive(Debug)]
pub struct RestoredCluster {
    /// The values with which the restored data continues.
    pub finished: FinishedRestore,
    /// The backup's manifest.
    pub backup: BackupManifest,
}

/// Replaces what the databases hold by a backup, while no node uses them. Checks the whole backup first.
/// Raises the epoch, and skips ids and sequence numbers, as
/// [`finish_restore`](super::restored::finish_restore) does.
///
/// # Errors
/// If the backup is damaged, a store does not answer, or nodes use the database; without `force`, if it holds
/// data.
pub async fn restore(
    config: &Config,
    folder: &Path,
    force: bool,
    report: ReportProgress<'_>,
) -> Result<RestoredCluster, ClusterBackupError> {
    let backup = verify_backup(folder, report)
        .map_err(|error| ClusterBackupError::Refused(StartError::new(error.to_string())))?;
    let store = OpenStore::open_idle(config).await?;
    let restored = replace(&store, config, &Source { folder, backup, force, report }).await;
    store.close().await;
    restored
}

/// The backup that is restored.
struct Source<'a> {
    folder: &'a Path,
    backup: BackupManifest,
    force: bool,
    report: ReportProgress<'a>,
}

async fn replace(
    store: &OpenStore,
    config: &Config,
    source: &Source<'_>,
) -> Result<RestoredCluster, ClusterBackupError> {
    let (stores, info, handle) = (store.stores(), store.info(config), handle(store)?);
    if let Some(unfit) = info.unfit().await {
        return Err(unfit.into());
    }
    let place = &info.data().place;
    match handle.holds_data().await {
        Ok(true) if !source.force => {
            let line =
                format!("{place} holds data already; choose another, or use --force: the data is replaced");
            return Err(StartError::new(line).into());
        }
        Ok(_) => {}
        Err(error) => return Err(failure(error.into(), &info).await),
    }
    let finished = while_alone(&stores, &info, load(store, &info, source)).await?;
    Ok(RestoredCluster { finished, backup: source.backup.clone() })
}

async fn load(
    store: &OpenStore,
    info: &StoreInfo,
    source: &Source<'_>,
) -> Result<FinishedRestore, ClusterBackupError> {
    let handle = handle(store)?;
    if let Err(error) = handle.restore(source.folder, &source.backup, source.report).await {
        return Err(failure(error, info).await);
    }
    let finished = continue_restored(store, info, RestoreSkips::since(source.backup.began)).await;
    let finished = finished.map_err(ClusterBackupError::Failed)?;
    match handle.end_restore().await {
        Ok(()) => Ok(finished),
        Err(error) => Err(failure(error.into(), info).await),
    }
}

fn handle(store: &OpenStore) -> Result<&ClusterHandle, StartError> {
    match store {
        OpenStore::Cluster(handle) => Ok(handle),
        #[cfg(feature = "embedded")]
        OpenStore::Sqlite(_) => Err(StartError::new("the data lie in a file, not in MongoDB")),
    }
}

async fn failure(error: BackupError, info: &StoreInfo) -> ClusterBackupError {
    let line = match &error {
        BackupError::Store(error) => info.failure(error).await.line(),
        other => StartError::new(other.to_string()),
    };
    match error {
        BackupError::Exists(_)
        | BackupError::NoBackup(_)
        | BackupError::Damaged(_)
        | BackupError::Newer { .. }
        | BackupError::NoRelations
        | BackupError::Store(StoreError::NewerSchema { .. } | StoreError::HalfRestored) => {
            ClusterBackupError::Refused(line)
        }
        BackupError::SnapshotTooOld
        | BackupError::Migrated
        | BackupError::File { .. }
        | BackupError::Relations(_)
        | BackupError::Store(_) => ClusterBackupError::Failed(line),
    }
}
