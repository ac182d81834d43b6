//! The file that describes a backup.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::{BackupError, folder::private};

/// The manifest format that this program writes and reads.
const FORMAT: u32 = 1;
/// A manifest has some kilobytes; longer files are refused.
const BYTES_MAX: u64 = 1 << 20;
const NAME: &str = "manifest.json";

/// The store of a collection or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackupStore {
    /// A collection of `MongoDB`.
    Mongodb,
    /// A table of Cassandra or `ScyllaDB`.
    Cql,
}

/// The copy of a collection or table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    /// The store that has it.
    pub store: BackupStore,
    /// Its name there.
    pub name: String,
    /// The file's size.
    pub bytes: u64,
    /// How many documents the file has.
    pub rows: u64,
    /// The file's SHA-256, in hexadecimal digits.
    pub sha256: String,
}

impl BackupFile {
    /// The file's path in the backup's folder.
    #[must_use]
    pub fn path(&self, folder: &Path) -> PathBuf {
        path_of(folder, self.store, &self.name)
    }
}

/// The path of a file in a backup.
pub(super) fn path_of(folder: &Path, store: BackupStore, name: &str) -> PathBuf {
    let store = match store {
        BackupStore::Mongodb => "mongodb",
        BackupStore::Cql => "cql",
    };
    folder.join(format!("{store}.{name}.bson.zst"))
}

/// Describes a backup. Stored as JSON in `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupManifest {
    /// The manifest's format.
    pub format: u32,
    /// The program version that made the backup.
    pub kith: String,
    /// The data's newest migration.
    pub schema: u32,
    /// The epoch when the backup was begun.
    pub epoch: u64,
    /// The second in which it was begun: all that was acknowledged before that is in it.
    #[serde(with = "humantime_serde")]
    pub began: SystemTime,
    /// The second in which it was complete.
    #[serde(with = "humantime_serde")]
    pub ended: SystemTime,
    /// One for each collection and each table.
    pub files: Vec<BackupFile>,
}

impl BackupManifest {
    pub(crate) const FORMAT: u32 = FORMAT;

    /// Reads a backup's manifest.
    ///
    /// # Errors
    /// If it is missing, is none, or a newer version wrote it.
    pub fn of(folder: &Path, newest: u32) -> Result<Self, BackupError> {
        let path = folder.join(NAME);
        let mut text = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text));
        match read {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(BackupError::NoBackup(folder.to_owned()));
            }
            Err(source) => return Err(BackupError::File { path, source }),
            Ok(_) => {}
        }
        let damaged = |_| BackupError::Damaged(path.clone());
        let Version { format, kith, schema } = serde_json::from_slice(&text).map_err(damaged)?;
        if format > FORMAT || schema > newest {
            return Err(BackupError::Newer { theirs: kith, ours: env!("CARGO_PKG_VERSION") });
        }
        serde_json::from_slice(&text).map_err(damaged)
    }

    /// Whether a folder has one.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(NAME).is_file()
    }

    /// Returns how many documents a collection or table has in the backup.
    #[must_use]
    pub fn rows(&self, name: &str) -> u64 {
        self.files.iter().filter(|file| file.name == name).map(|file| file.rows).sum()
    }

    /// Writes it to the folder.
    pub(crate) fn save(&self, folder: &Path) -> io::Result<()> {
        let mut file = private(&folder.join(NAME))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.sync_all()
    }
}

/// The fields that every format has.
#[derive(Deserialize)]
struct Version {
    format: u32,
    kith: String,
    schema: u32,
}

/// The present time, in whole seconds, so that its text is exact.
pub(crate) fn now() -> SystemTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(since.as_secs())
}
