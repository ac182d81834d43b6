//! A disk that can be filled up.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};
use kith_lab_servers::{child::ChildProcess, wait};
use tempfile::TempDir;

/// Fills the disk.
const BALLAST: &str = "ballast";
/// Space is filled in pieces with these sizes, the larger first.
const PIECES: [usize; 2] = [1 << 20, 1 << 10];
const MOUNTED_WITHIN: Duration = Duration::from_secs(5);

/// A file system in memory, in a separate name space, so that it does not need root. It is removed with the
/// value.
#[derive(Debug)]
pub struct SmallDisk {
    /// Keeps the name space.
    _holder: ChildProcess,
    _folder: TempDir,
    path: PathBuf,
}

impl SmallDisk {
    /// Makes a disk with `bytes` bytes.
    ///
    /// # Errors
    /// If `unshare` is missing, or users may have no name spaces.
    pub async fn new(bytes: u64) -> Result<Self> {
        let folder = TempDir::new()?;
        let place = folder.path().join("disk");
        fs::create_dir(&place)?;
        let mut unshare = Command::new("unshare");
        let script =
            "mount -t tmpfs -o size=\"$0\" tmpfs \"$1\" && touch \"$1/mounted\" && exec sleep infinity";
        unshare.args(["-Urm", "sh", "-c", script, &bytes.to_string()]).arg(&place);
        let mut holder = ChildProcess::start("unshare", unshare, folder.path().join("unshare.log"))?;
        // The path from outside the name space.
        let root = PathBuf::from(format!("/proc/{}/root", holder.id()));
        let path = root.join(place.strip_prefix("/").context("folders for a while have a whole path")?);
        wait::until("a small disk is not mounted", MOUNTED_WITHIN, async || {
            holder.ensure_alive()?;
            Ok(path.join("mounted").exists())
        })
        .await?;
        Ok(Self { _holder: holder, _folder: folder, path })
    }

    /// The disk's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills the remaining space.
    ///
    /// # Errors
    /// When it cannot be written for another reason than that it is full.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.path.join(BALLAST))?;
        for size in PIECES {
            let piece = vec![0; size];
            loop {
                match ballast.write_all(&piece) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Frees the space.
    ///
    /// # Errors
    /// If it was not filled.
    pub fn free(&self) -> Result<()> {
        Ok(fs::remove_file(self.path.join(BALLAST))?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn full_disk_refuses_writes_until_space_is_freed() {
        let disk = SmallDisk::new(4 << 20).await.unwrap();
        let file = disk.path().join("file");
        disk.fill().unwrap();
        assert_eq!(fs::write(&file, [1; 8_192]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        disk.free().unwrap();
        fs::write(&file, [1; 8_192]).unwrap();
    }
}
