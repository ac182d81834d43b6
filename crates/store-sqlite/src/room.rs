//! How much room a data file has left: on its disk, and below the largest size that the process may give a
//! file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::{
    fs::statvfs,
    process::{Resource, getrlimit},
};

/// Below this many bytes, a node with some users soon has no room left.
pub const ROOM_LEAST: u64 = 256 << 20;
/// A file must be able to grow by this many bytes.
const GROWTH: usize = 64 << 10;

/// Returns by how many bytes the data file at `path` can grow; `None` if the system does not say. Knows no
/// quotas.
#[must_use]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let disk = statvfs(folder).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    Some(free.min(below_size_limit(path).unwrap_or(u64::MAX)))
}

/// Whether the file at `path` could grow by 64 KiB. SQLite reports the same errors for a quota, for the
/// largest file size and for its shared memory as for a broken disk. Writes a file next to it and removes it;
/// call it only after a failure.
#[must_use]
pub fn has_room(path: &Path) -> bool {
    let probe = with_end(path, ".room");
    let written = fs::write(&probe, [0; GROWTH]);
    drop(fs::remove_file(&probe));
    !written.is_err_and(|error| is_full(&error))
        && below_size_limit(path).is_none_or(|left| left >= GROWTH as u64)
}

/// Whether the error means that a file cannot grow.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// How many bytes the larger file, data file or log, is below the limit on file size; `None`: there is no
/// limit.
fn below_size_limit(path: &Path) -> Option<u64> {
    let limit = getrlimit(Resource::Fsize).current?;
    let sizes =
        [path.to_owned(), with_end(path, "-wal")].map(|file| fs::metadata(file).map_or(0, |file| file.len()));
    Some(limit.saturating_sub(sizes.into_iter().max().unwrap_or_default()))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
