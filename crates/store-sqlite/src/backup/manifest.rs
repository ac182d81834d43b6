//! The file that describes a backup.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::{
    BackupError,
    files::{private, with_suffix},
};

/// The manifest format that this program writes and reads.
const FORMAT: u32 = 1;
/// A manifest has some 400 bytes; longer files are refused.
const BYTES_MAX: u64 = 64 * 1024;

/// Describes a backup. Stored as JSON in `FILE.manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The manifest's format.
    pub format: u32,
    /// The program version that made the backup.
    pub kith: String,
    /// The data's newest migration.
    pub schema: u32,
    /// The node's epoch when the backup was taken.
    pub epoch: u64,
    /// The file's size.
    pub bytes: u64,
    /// The file's SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// Existing users.
    pub users: u64,
    /// Existing groups.
    pub groups: u64,
    /// The second in which it was begun: all that was acknowledged before that is in it.
    #[serde(with = "humantime_serde")]
    pub began: SystemTime,
    /// The second in which it was complete.
    #[serde(with = "humantime_serde")]
    pub ended: SystemTime,
}

impl Manifest {
    /// The form that this program writes.
    pub(super) const FORMAT: u32 = FORMAT;

    /// Returns the path of a backup's manifest.
    #[must_use]
    pub fn path_of(backup: &Path) -> PathBuf {
        with_suffix(backup, ".manifest.json")
    }

    /// Reads a backup's manifest.
    ///
    /// # Errors
    /// If it is missing, too large, or invalid.
    pub fn of(backup: &Path) -> Result<Self, BackupError> {
        let path = Self::path_of(backup);
        let mut text = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BackupError::NoManifest { path });
            }
            Err(source) => return Err(BackupError::Unreadable { path, source }),
            Ok(_) => {}
        }
        let manifest: Self = match serde_json::from_slice(&text) {
            Ok(manifest) => manifest,
            Err(_) => return Err(BackupError::NotABackup { path }),
        };
        if manifest.format == FORMAT { Ok(manifest) } else { Err(BackupError::NotABackup { path }) }
    }

    /// Writes it next to `backup`, atomically, replacing an existing manifest.
    pub(super) fn save(&self, backup: &Path) -> io::Result<()> {
        let path = Self::path_of(backup);
        let part = with_suffix(&path, ".part");
        let mut file = private(&part)?;
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(part, path)
    }
}

/// The present time, in whole seconds, so that its text is exact.
pub(super) fn now() -> SystemTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(since.as_secs())
}
