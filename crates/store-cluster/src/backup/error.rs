//! Errors in backups and restores.

use std::{
    error::Error as _,
    io,
    path::{Path, PathBuf},
};

use kith_store::StoreError;

/// Why a backup was not taken or not restored: one line with the cause and what to do.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A backup never replaces a folder.
    #[error("{} exists already; choose another name, or move it away", .0.display())]
    Exists(PathBuf),
    /// There is no backup.
    #[error("there is no backup of a cluster at {}; name a folder that kith backup has written", .0.display())]
    NoBackup(PathBuf),
    /// A file is missing, or is not the file in the manifest.
    #[error("{} is not as it was backed up (it is missing, or its size, count or SHA-256 differs); take another copy of \
        the backup", .0.display())]
    Damaged(PathBuf),
    /// A newer version of the program made the backup.
    #[error(
        "the backup was made by kith {theirs}, which this kith {ours} cannot read; restore it with kith {theirs} or newer"
    )]
    Newer {
        /// The program version that made the backup.
        theirs: String,
        /// This program's version.
        ours: &'static str,
    },
    /// The backup has relations, and the configuration names no store for them.
    #[error("the backup has relations, and store.cql.contact_points is not set; set it as the nodes have it")]
    NoRelations,
    /// `MongoDB` does not keep the moment of the backup long enough.
    #[error(
        "MongoDB has dropped the moment that is copied before the copy ended; raise \
        minSnapshotHistoryWindowInSeconds on all its members above the time that a copy takes, or use mongodump"
    )]
    SnapshotTooOld,
    /// A migration changed the data meanwhile.
    #[error("a migration was applied during the backup; repeat it")]
    Migrated,
    /// The system failed.
    #[error("{}: {source}; check disk, path and rights", .path.display())]
    File {
        /// The file's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The store of relations failed.
    #[error("the store of relations (store.cql) failed: {}", cause(.0))]
    Relations(StoreError),
    /// `MongoDB` failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BackupError {
    pub(crate) fn file(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.as_ref().to_owned(), source }
    }
}

fn cause(error: &StoreError) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
