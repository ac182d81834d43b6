//! Whether the files that the store has open are still those at their paths.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The endings that SQLite and the lock append to the data file's name.
const ENDS: [&str; 4] = ["", "-wal", "-shm", ".lock"];

/// An open store's files, as they were when it was opened. An open file keeps its inode, so that no other
/// file can have the same inode meanwhile.
#[derive(Debug, Default)]
pub(crate) struct DataFiles(Vec<(PathBuf, FileId)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl DataFiles {
    /// The data file at `path` and the files next to it that exist now.
    pub(crate) fn at(path: &Path) -> Self {
        let files = ENDS.map(|end| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        });
        let found = files.into_iter().filter_map(|file| Some((file.clone(), file_id(&file).ok()?)));
        Self(found.collect())
    }

    /// The first file that is no longer the file that was opened. A file that cannot be looked at counts as
    /// the same: its folder may have lost a right, which loses no data.
    pub(crate) fn replaced(&self) -> Option<&Path> {
        let is_other = |path: &Path, opened: FileId| match file_id(path) {
            Ok(found) => found != opened,
            Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        self.0.iter().find(|(path, opened)| is_other(path, *opened)).map(|(path, _)| path.as_path())
    }
}

fn file_id(path: &Path) -> io::Result<FileId> {
    fs::metadata(path).map(|found| FileId { device: found.dev(), inode: found.ino() })
}
