//! The folder of a backup, which only its owner can read.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use super::BackupError;

/// Makes the folder of a backup that is not complete, which only its owner can read. Replaces what an earlier
/// backup with this name left.
pub(crate) fn begin_folder(to: &Path) -> Result<PathBuf, BackupError> {
    if to.exists() {
        return Err(BackupError::Exists(to.to_owned()));
    }
    let mut name = to.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    if part.exists() {
        fs::remove_dir_all(&part).map_err(BackupError::file(&part))?;
    }
    let mut builder = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700)
        .create(&part)
        .map_err(BackupError::file(&part))?;
    Ok(part)
}

/// Gives a complete backup its name, after all of it is on the disk.
pub(crate) fn end_folder(part: &Path, to: &Path) -> io::Result<()> {
    File::open(part)?.sync_all()?;
    fs::rename(part, to)?;
    let above = to.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(above)?.sync_all()
}

/// A new, empty file that only its owner can read.
pub(super) fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
