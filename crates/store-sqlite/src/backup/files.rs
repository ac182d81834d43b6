//! Files that appear under their final name complete, or not at all.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

/// Bytes in one read.
const BUFFER: usize = 256 * 1024;

/// Returns the file's name with this at its end.
pub(super) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    name.into()
}

/// An open file that only its owner can read; created if it is missing, and otherwise unchanged.
pub(super) fn private(file: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(file)
}

/// Removes it; it may be missing.
pub(super) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the files that SQLite may have left next to a file.
pub(super) fn remove_logs(file: &Path) -> io::Result<()> {
    ["-wal", "-shm", "-journal"].iter().try_for_each(|suffix| remove(&with_suffix(file, suffix)))
}

/// Synchronizes the folder that contains `file`.
pub(super) fn sync_folder(file: &Path) -> io::Result<()> {
    File::open(folder(file))?.sync_all()
}

/// Returns the folder that contains `file`.
pub(super) fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Copies to the end and returns how many bytes these were, and their SHA-256 in hexadecimal digits.
pub(super) fn copy_hashed(mut from: impl Read, mut to: impl Write) -> io::Result<(u64, String)> {
    let (mut digest, mut total, mut buffer) = (Sha256::new(), 0, vec![0; BUFFER]);
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok((total, format!("{:x}", digest.finalize())));
        }
        digest.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
        total += u64::try_from(read).unwrap_or(u64::MAX);
    }
}
