//! The state of the writer's files before each transaction: whether they are still the files that it has
//! open, whether another process keeps the lock, and how much room is left. A node reads it through a
//! [`Probe`].

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use kith_store::StoreError;
use parking_lot::Mutex;

use crate::{data_files::DataFiles, error::unavailable, room};

/// Why no write can begin until something outside the process changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteObstacle {
    /// This file was removed, moved or replaced: writes to the open file would be lost.
    Replaced(PathBuf),
    /// Another process holds the data file's write lock.
    Locked,
}

/// The files' condition, as the writer last found it.
#[derive(Debug)]
pub(crate) struct Condition {
    /// The data file; `None`: the store is in memory.
    path: Option<PathBuf>,
    files: DataFiles,
    obstacle: Mutex<Option<WriteObstacle>>,
    /// Whether the last write was refused because there was no room.
    full: AtomicBool,
    /// Bytes; `u64::MAX`: not known.
    free: AtomicU64,
}

impl Condition {
    /// Makes the condition for the data file at `path`, after it was opened.
    pub(crate) fn of_file(path: &Path) -> Self {
        Self { path: Some(path.to_owned()), files: DataFiles::at(path), ..Self::in_memory() }
    }

    /// Makes the condition for a store in memory, which has no files.
    pub(crate) fn in_memory() -> Self {
        Self {
            path: None,
            files: DataFiles::default(),
            obstacle: Mutex::default(),
            full: AtomicBool::new(false),
            free: AtomicU64::new(u64::MAX),
        }
    }

    /// Checks before a write that the files are still those that are open.
    ///
    /// # Errors
    /// Returns [`StoreError::Unavailable`] if a file has changed.
    pub(crate) fn check_files(&self) -> Result<(), StoreError> {
        match self.files.replaced() {
            None => Ok(()),
            Some(file) => {
                self.note_obstacle(Some(WriteObstacle::Replaced(file.to_owned())));
                Err(unavailable("a file of the store was removed, moved or replaced"))
            }
        }
    }

    /// Notes why a transaction could not begin; `None`: it did.
    pub(crate) fn note_obstacle(&self, obstacle: Option<WriteObstacle>) {
        *self.obstacle.lock() = obstacle;
    }

    /// Records how a batch of writes ended; `full`: whether any of them found no room.
    pub(crate) fn note_end(&self, committed: bool, full: bool) {
        if full {
            self.full.store(true, Ordering::Relaxed);
        } else if committed {
            self.full.store(false, Ordering::Relaxed);
        }
    }

    /// Measures the room that is left for the data file.
    pub(crate) fn measure_room(&self) {
        let free = self.path.as_deref().and_then(room::free_bytes);
        self.free.store(free.unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Reads an open store's condition. Cheap to clone; asks neither the disk nor the writer.
#[derive(Clone, Debug)]
pub struct Probe(pub(crate) Arc<Condition>);

impl Probe {
    /// Why the last write or ping could not begin.
    #[must_use]
    pub fn obstacle(&self) -> Option<WriteObstacle> {
        self.0.obstacle.lock().clone()
    }

    /// Whether the last write was refused because there was no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.full.load(Ordering::Relaxed)
    }

    /// Returns by how many bytes the data file could grow at the last ping; `None`: not known, or the store
    /// is in memory.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        Some(self.0.free.load(Ordering::Relaxed)).filter(|free| *free != u64::MAX)
    }
}
