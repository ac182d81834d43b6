//! The copy that a backup takes at one moment.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
};

use super::BackupError;
use crate::{SqliteOptions, identity, open, open_error::sqlite_error};

/// Pages in one step: 1 MiB at the usual page size.
const STEP_PAGES: i32 = 256;
/// Rest after each step, so that the node gets its turns at the disk: at most 200 MiB a second are copied.
const REST: Duration = Duration::from_millis(5);
/// How long a step may be refused because SQLite itself is at work on the file.
const BUSY: Duration = Duration::from_secs(30);

/// How far a backup has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Pages that are copied.
    pub copied: u64,
    /// Pages that there are.
    pub pages: u64,
}

/// Copies the data file at `from` as it is at one moment after the call to the empty file `to`, which no
/// other process may have. Until it returns, the log of `from` grows by everything that is written to it.
pub(super) fn copy(from: &Path, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(), BackupError> {
    let options = SqliteOptions::new(from);
    let source = open::reader(&options).map_err(|error| sqlite_error(from, error))?;
    // Deferred: the first read fixes the moment, and the transaction keeps it for all later reads.
    source.execute_batch("BEGIN").map_err(|error| sqlite_error(from, error))?;
    identity::refuse_foreign(from, &source)?;
    if open::refuse_newer(from, &source)? == 0 {
        return Err(BackupError::NoData { path: from.to_owned() });
    }
    let failed = |error| BackupError::failed(to, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut target = Connection::open_with_flags(to, flags).map_err(failed)?;
    // An incomplete copy is useless, and the complete file is synchronised at the end.
    target.pragma_update(None, "journal_mode", "OFF").map_err(failed)?;
    target.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
    let steps = Backup::new(&source, &mut target).map_err(failed)?;
    run(&steps, progress).map_err(failed)
}

fn run(steps: &Backup<'_, '_>, progress: &mut dyn FnMut(Progress)) -> rusqlite::Result<()> {
    let mut moved = Instant::now();
    loop {
        match steps.step(STEP_PAGES)? {
            StepResult::Done => break,
            StepResult::More => moved = Instant::now(),
            _ if moved.elapsed() > BUSY => {
                let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
                return Err(rusqlite::Error::SqliteFailure(busy, None));
            }
            _ => {}
        }
        progress(so_far(steps));
        thread::sleep(REST);
    }
    progress(so_far(steps));
    Ok(())
}

fn so_far(steps: &Backup<'_, '_>) -> Progress {
    let now = steps.progress();
    let pages = u64::try_from(now.pagecount).unwrap_or_default();
    Progress { copied: pages.saturating_sub(u64::try_from(now.remaining).unwrap_or_default()), pages }
}
