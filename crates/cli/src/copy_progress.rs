//! Shows how far a backup or restore of a cluster has come.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use kith_server::node::cluster_backup::BackupProgress;

use super::progress_lines::ProgressLines;

/// A report comes for every row.
const SHOWN_EVERY: Duration = Duration::from_millis(100);

/// The line on standard error.
pub(super) struct CopyProgress {
    /// What is done to rows.
    done: &'static str,
    shown: Mutex<(ProgressLines, Instant)>,
}

impl CopyProgress {
    pub(super) fn new(done: &'static str) -> Self {
        Self { done, shown: Mutex::new((ProgressLines::new(None), Instant::now())) }
    }

    /// Shows the progress, now and then.
    pub(super) fn update(&self, BackupProgress { name, rows }: BackupProgress<'_>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.1.elapsed() >= SHOWN_EVERY {
            shown.1 = Instant::now();
            shown.0.update(rows, format!("{name}: {rows} {}", self.done), str::to_owned);
        }
    }

    /// Removes the line.
    pub(super) fn end(&self) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).0.end();
    }
}

impl fmt::Debug for CopyProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyProgress").field("done", &self.done).finish_non_exhaustive()
    }
}
