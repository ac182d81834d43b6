//! Errors in backups and restores.

use std::{error::Error, io, path::PathBuf};

use crate::{OpenError, open_error};

/// Why a backup was not taken or not restored: one line with the cause and what to do. Files that had the
/// final names before are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The data file is missing.
    #[error("there are no data at {}; name the data folder of the node with --data-dir", .path.display())]
    NoData {
        /// The file's path.
        path: PathBuf,
    },
    /// A backup never replaces a file.
    #[error("{} exists already; choose another name, or move it away", .path.display())]
    Exists {
        /// The file's path.
        path: PathBuf,
    },
    /// The backup folder is missing.
    #[error("there is no folder {}; make it, or choose another", .path.display())]
    NoFolder {
        /// The folder's path.
        path: PathBuf,
    },
    /// Another process writes a backup under the same name.
    #[error("another backup to {} is under way; wait for it, or choose another name", .path.display())]
    UnderWay {
        /// The file's path.
        path: PathBuf,
    },
    /// The backup file is missing.
    #[error("there is no backup at {}; name a file that kith backup has written", .path.display())]
    NoBackup {
        /// The file's path.
        path: PathBuf,
    },
    /// A backup file cannot be read.
    #[error("{} cannot be read ({source}); give this user the right to it", .path.display())]
    Unreadable {
        /// The file's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A backup's manifest is missing.
    #[error("{} is missing; a backup is two files: copy both, and name the one without .manifest.json",
        .path.display())]
    NoManifest {
        /// The path where it should be.
        path: PathBuf,
    },
    /// The manifest, or the file next to it, is something else.
    #[error("{} is no backup made by kith; name a file that kith backup has written", .path.display())]
    NotABackup {
        /// The file's path.
        path: PathBuf,
    },
    /// The file is not the file in the manifest.
    #[error("{} is not as it was backed up (its size or SHA-256 differs); take another copy of it",
        .path.display())]
    Damaged {
        /// The file's path.
        path: PathBuf,
    },
    /// A newer version of the program made the backup.
    #[error(
        "the backup was made by kith {theirs} at migration {found}, this is kith {ours}, which knows \
        {known}; restore it with kith {theirs} or newer"
    )]
    NewerSchema {
        /// The program version that made the backup.
        theirs: String,
        /// The backup's newest migration.
        found: u32,
        /// This program's version.
        ours: &'static str,
        /// This program's newest migration.
        known: u32,
    },
    /// Data exists at the restore target.
    #[error("{} holds data already; choose another data folder, or use --force: the existing data is kept next to it",
        .path.display())]
    HasData {
        /// The file's path.
        path: PathBuf,
    },
    /// SQLite finds faults in the data.
    #[error("{} is damaged: SQLite finds faults in it; restore an earlier backup", .path.display())]
    Unsound {
        /// The file's path.
        path: PathBuf,
    },
    /// The data file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system or SQLite failed.
    #[error("{}: {source}; check disk, path and rights", .path.display())]
    Failed {
        /// The file's path.
        path: PathBuf,
        /// The error below.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl BackupError {
    /// Whether it failed while it ran, and not before anything began.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Unsound { .. })
    }

    pub(super) fn failed(path: impl Into<PathBuf>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed { path: path.into(), source: source.into() }
    }

    /// Like [`Self::failed`], except that a missing right is reported before anything begins.
    pub(super) fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                open_error::io_error(&path, source).into()
            }
            _ => Self::failed(path, source),
        }
    }
}
