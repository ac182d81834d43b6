//! Why a data file is not opened: one line with the cause and the remedy.

use std::{
    fmt, fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;

use crate::room::{has_room, is_full};

/// Why a data file was not opened: one line with the cause and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("another kith process (pid {}) has {} open; stop it, or choose another data folder",
        .pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()), .path.display())]
    Locked {
        /// The process, if it could be read.
        pid: Option<u32>,
        /// The file's path.
        path: PathBuf,
    },
    /// A newer version of the program has migrated the file.
    #[error("{} was written by a newer kith: it is at migration {found:04} ({name}), and kith {} knows up to \
        {known:04}; start the newer kith, or restore a backup from before the upgrade",
        .path.display(), env!("CARGO_PKG_VERSION"))]
    NewerSchema {
        /// The file's path.
        path: PathBuf,
        /// The file's newest migration.
        found: u32,
        /// The migration's name.
        name: String,
        /// This program's newest migration.
        known: u32,
    },
    /// The file or its folder may not be written.
    #[error("{right}")]
    NotWritable {
        /// The missing right.
        right: MissingRight,
        /// The system's error.
        source: io::Error,
    },
    /// A file is where a folder must be, or a folder where the file must be.
    #[error("{} is {found} and must be {wanted}; move it away, or choose another data folder", .path.display())]
    WrongKind {
        /// The path that is wrong.
        path: PathBuf,
        /// "a file" or "a folder".
        found: &'static str,
        /// The kind of file that must be there.
        wanted: &'static str,
    },
    /// The disk, the user's quota or the largest file size is used up.
    #[error("there is no room left for {} (disk, quota or limit on file size); make room, or choose another \
        data folder", .path.display())]
    Full {
        /// The file's path.
        path: PathBuf,
        /// The error from the system or SQLite.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is not a database, or is damaged at its beginning.
    #[error("{} is not a kith data file; move it away, or restore a backup", .path.display())]
    NotADatabase {
        /// The file's path.
        path: PathBuf,
    },
    /// The file is a SQLite database, and has no tables from this program.
    #[error("{} is the database of another program and was left as it is; move it away, or choose another data folder",
        .path.display())]
    Foreign {
        /// The file's path.
        path: PathBuf,
    },
    /// Any other error.
    #[error("{} cannot be opened ({source}); check disk and path", .path.display())]
    Other {
        /// The file's path.
        path: PathBuf,
        /// The error from the system or SQLite.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The path that cannot be written, its owner, and the user that runs this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRight {
    /// The data folder.
    folder: PathBuf,
    /// The path that cannot be written: the file, the folder, or the nearest folder above it that exists.
    fault: PathBuf,
    /// The path's owner and mode, where they can be read.
    owner: Option<(u32, u32)>,
    /// The user that runs this process, where it can be read.
    uid: Option<u32>,
    read_only: bool,
}

impl MissingRight {
    fn of(folder: &Path, wanted: &Path, read_only: bool) -> Self {
        let (fault, found) = nearest(wanted);
        let owner = found.map(|found| (found.uid(), found.permissions().mode() & 0o7777));
        Self { folder: folder.to_owned(), fault, owner, uid: own_uid(), read_only }
    }
}

impl fmt::Display for MissingRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (folder, fault) = (self.folder.display(), self.fault.display());
        if self.read_only {
            return write!(
                f,
                "{fault} is on a file system that can only be read; mount it for writing, or choose another \
                 data folder"
            );
        }
        let (Some((owner, mode)), Some(uid)) = (self.owner, self.uid) else {
            return write!(
                f,
                "{fault} may not be written by this user; give it the right to, or choose another data folder"
            );
        };
        write!(
            f,
            "{fault} may not be written: it belongs to uid {owner} (mode {mode:03o}), this process runs as uid \
             {uid}; "
        )?;
        // Folders above the data folder must keep their owner: only the folder must be created.
        if self.folder != self.fault && self.folder.starts_with(&self.fault) {
            return write!(f, "make the folder: sudo install -d -m 700 -o {uid} {folder}");
        }
        if owner == uid {
            return write!(f, "give the right back: chmod -R u+rwX {folder}");
        }
        write!(f, "make them the same: sudo chown -R {uid} {folder}")
    }
}

/// The path, or the nearest one above it that exists.
fn nearest(path: &Path) -> (PathBuf, Option<fs::Metadata>) {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in absolute.ancestors() {
        if let Ok(found) = fs::metadata(above) {
            return (above.to_owned(), Some(found));
        }
    }
    (absolute, None)
}

/// This process's effective user; `None` if the system does not provide it.
fn own_uid() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Converts an error about the folder that contains the file at `path`.
pub(crate) fn folder_error(path: &Path, error: io::Error) -> OpenError {
    let folder = folder(path);
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            OpenError::WrongKind { path: not_a_folder(&folder), found: "a file", wanted: "a folder" }
        }
        _ => error_of_kind(path, &folder, error),
    }
}

/// The error for the file at `path`, or for one next to it.
pub(crate) fn io_error(path: &Path, error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::IsADirectory => {
            OpenError::WrongKind { path: path.to_owned(), found: "a folder", wanted: "a file" }
        }
        _ => error_of_kind(path, &unwritable(path), error),
    }
}

/// The error for what SQLite reported for the file at `path`.
pub(crate) fn sqlite_error(path: &Path, error: rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            OpenError::NotADatabase { path: path.to_owned() }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            not_writable(path, &unwritable(path), io::Error::other(error))
        }
        Some(ErrorCode::DiskFull) => OpenError::Full { path: path.to_owned(), source: error.into() },
        Some(ErrorCode::SystemIoFailure) if !has_room(path) => {
            OpenError::Full { path: path.to_owned(), source: error.into() }
        }
        _ => OpenError::Other { path: path.to_owned(), source: error.into() },
    }
}

fn error_of_kind(path: &Path, wanted: &Path, error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            not_writable(path, wanted, error)
        }
        _ if is_full(&error) => OpenError::Full { path: path.to_owned(), source: error.into() },
        _ => OpenError::Other { path: path.to_owned(), source: error.into() },
    }
}

fn not_writable(path: &Path, wanted: &Path, source: io::Error) -> OpenError {
    let read_only = source.kind() == io::ErrorKind::ReadOnlyFilesystem;
    OpenError::NotWritable { right: MissingRight::of(&folder(path), wanted, read_only), source }
}

/// The file's folder, absolute so that it can be compared with those above it.
fn folder(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

/// The store's file that cannot be written, or their folder.
fn unwritable(path: &Path) -> PathBuf {
    let files = ["", ".lock", "-wal", "-shm"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    });
    let refused = |file: &PathBuf| {
        let opened = fs::OpenOptions::new().write(true).open(file);
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied && file.exists())
    };
    files.into_iter().find(refused).unwrap_or_else(|| folder(path))
}

/// The first part of the path that is not a folder.
fn not_a_folder(folder: &Path) -> PathBuf {
    folder.ancestors().find(|path| path.exists()).unwrap_or(folder).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(fault: &str, owner: u32, uid: u32) -> String {
        let (folder, fault) = (PathBuf::from("/srv/kith"), PathBuf::from(fault));
        MissingRight { folder, fault, owner: Some((owner, 0o755)), uid: Some(uid), read_only: false }
            .to_string()
    }

    #[test]
    fn advice_changes_nothing_above_data_folder() {
        assert_eq!(
            right("/srv", 0, 7),
            "/srv may not be written: it belongs to uid 0 (mode 755), this process runs as uid 7; make the \
             folder: sudo install -d -m 700 -o 7 /srv/kith"
        );
        assert!(right("/srv/kith/kith.db", 0, 7).ends_with("sudo chown -R 7 /srv/kith"));
        assert!(right("/srv/kith", 7, 7).ends_with("chmod -R u+rwX /srv/kith"));
    }

    #[test]
    fn full_disk_is_recognised_from_both_errors() {
        let path = Path::new("/srv/kith/kith.db");
        let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        for error in [
            io_error(path, io::ErrorKind::StorageFull.into()),
            io_error(path, io::ErrorKind::QuotaExceeded.into()),
            sqlite_error(path, rusqlite::Error::SqliteFailure(full, None)),
        ] {
            assert!(error.to_string().starts_with("there is no room left for /srv/kith/kith.db"), "{error}");
        }
    }

    #[test]
    fn read_only_file_system_is_named_in_error() {
        let error = io_error(Path::new("/srv/kith.db"), io::ErrorKind::ReadOnlyFilesystem.into());
        assert!(error.to_string().contains("can only be read"), "{error}");
    }
}
