//! Opening a data file.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kith_store::Migration;
use rusqlite::{
    Connection, ErrorCode, InterruptHandle, OpenFlags,
    backup::{Backup, StepResult},
    config::DbConfig,
};
use tokio::sync::oneshot;

use crate::{
    Sqlite, SqliteHandle,
    change::Collecting,
    condition::Condition,
    error::Failure,
    identity,
    lock::{self, Lock, LockError},
    migrate,
    open_error::{OpenError, folder_error, io_error, sqlite_error},
    readers::Readers,
    writer::{BUSY, Writer},
};

/// Default number of reader threads.
const READERS: usize = 3;
/// Statements that a connection keeps prepared; above the number that there are.
const STATEMENTS: usize = 128;

/// Options for a data file.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The file. It and its folder are created if they are missing, readable only by the owner.
    pub path: PathBuf,
    /// Reader threads, 1 to 16.
    pub readers: usize,
    /// Most writes that wait, and most reads that wait; above it calls are
    /// [`Overloaded`](kith_store::StoreError::Overloaded).
    pub queue: usize,
    /// The most writes in one commit.
    pub group_commit_max: usize,
    /// Whether an acknowledged write also survives a power loss; otherwise it survives only the end of the
    /// process.
    pub synchronous_full: bool,
    /// Pages that each connection caches.
    pub cache_bytes: usize,
    /// The write-ahead log's size after a checkpoint.
    pub journal_bytes: usize,
}

impl SqliteOptions {
    /// The defaults for a file: durable, 3 readers, 4096 waiting calls, 256 writes in a commit, 16 MiB cache
    /// for each connection.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            readers: READERS,
            queue: 4096,
            group_commit_max: 256,
            synchronous_full: true,
            cache_bytes: 16 << 20,
            journal_bytes: 64 << 20,
        }
    }
}

/// Takes the data file's lock and opens it; creates folder and file if they are missing. Does not migrate:
/// see [`Migrations`](kith_store::Migrations).
///
/// # Errors
/// See [`OpenError`]; nothing is left open then.
pub async fn open(options: SqliteOptions) -> Result<SqliteHandle, OpenError> {
    let path = options.path.clone();
    let opened = tokio::task::spawn_blocking(move || open_file(&options)).await;
    opened.map_err(|error| OpenError::Other { path, source: error.into() })?
}

/// Returns the migrations for the data file at `path`, applied or pending. May be called while another
/// process has it open: takes no lock and changes nothing. All are pending if there is no file.
///
/// # Errors
/// See [`OpenError`].
pub async fn migration_status(path: PathBuf) -> Result<Vec<Migration>, OpenError> {
    let read = path.clone();
    let status = tokio::task::spawn_blocking(move || status_of_file(&read)).await;
    status.map_err(|error| OpenError::Other { path, source: error.into() })?
}

/// Checks the pages in the data file at `path` within `limit`, and returns the first faults; none if there is
/// no file. Finds damaged pages and rows, but not an index that differs from its table, which takes much
/// longer. May be called while another process has it open: takes no lock and changes nothing.
///
/// # Errors
/// See [`OpenError`]. `Ok(None)`: the time was not enough.
pub async fn quick_check(path: PathBuf, limit: Duration) -> Result<Option<Vec<String>>, OpenError> {
    let read = path.clone();
    let (begun, interrupt) = oneshot::channel();
    let mut checked = tokio::task::spawn_blocking(move || check_pages(&read, begun));
    let in_time = tokio::time::timeout(limit, &mut checked).await;
    let (checked, is_late) = match in_time {
        Ok(checked) => (checked, false),
        Err(_) => {
            if let Ok(interrupt) = interrupt.await {
                interrupt.interrupt();
            }
            (checked.await, true)
        }
    };
    match checked.map_err(|error| OpenError::Other { path, source: error.into() })? {
        Err(_) if is_late => Ok(None),
        checked => checked.map(Some),
    }
}

fn check_pages(path: &Path, begun: oneshot::Sender<InterruptHandle>) -> Result<Vec<String>, OpenError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let faults = || -> rusqlite::Result<Vec<String>> {
        let connection = reader(&SqliteOptions::new(path))?;
        // The caller may have stopped waiting.
        drop(begun.send(connection.get_interrupt_handle()));
        let mut check = connection.prepare("PRAGMA quick_check(5)")?;
        check.query_map([], |row| row.get(0))?.collect()
    };
    match faults() {
        Ok(faults) => Ok(faults.into_iter().filter(|line| line != "ok").collect()),
        // The file is so damaged that the check itself ends.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Ok(vec![error.to_string()])
        }
        Err(error) => Err(sqlite_error(path, error)),
    }
}

/// Opens an empty, migrated store in memory that is dropped with its handle: for tests. It holds at most 1
/// GiB, and is [`Full`](kith_store::StoreError::Full) then.
///
/// # Errors
/// [`OpenError::Other`] if there is no memory or no thread for it.
pub async fn open_in_memory() -> Result<SqliteHandle, OpenError> {
    open_in_memory_with(READERS).await
}

/// Like [`open_in_memory`], but with this many reader threads, 1 to 16.
///
/// # Errors
/// Fails like [`open_in_memory`].
pub async fn open_in_memory_with(readers: usize) -> Result<SqliteHandle, OpenError> {
    let options = SqliteOptions { readers, ..SqliteOptions::new(memory_name()) };
    let path = options.path.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let writer = writer(&options).map_err(|error| sqlite_error(&options.path, error))?;
        migrate::migrate(&writer).map_err(|failure| match failure {
            Failure::Sqlite(error) => sqlite_error(&options.path, error),
            Failure::Store(error) => OpenError::Other { path: options.path.clone(), source: error.into() },
        })?;
        start(&options, writer, None)
    });
    opened.await.map_err(|error| OpenError::Other { path, source: error.into() })?
}

/// Copies the content of `source` into a store in memory with this many readers. Called on a reader thread.
pub(crate) fn copy(source: &Connection, readers: usize) -> Result<SqliteHandle, OpenError> {
    let options = SqliteOptions { readers, ..SqliteOptions::new(memory_name()) };
    let refused = |error| sqlite_error(&options.path, error);
    let mut target = writer(&options).map_err(refused)?;
    let copied = Backup::new(source, &mut target).and_then(|backup| backup.step(-1)).map_err(refused)?;
    if copied != StepResult::Done {
        return Err(OpenError::Other { path: options.path, source: "the source is being written".into() });
    }
    start(&options, target, None)
}

/// A database in memory that all connections in this process with this name share, and no other process.
fn memory_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("file:/kith-{}?vfs=memdb", COUNT.fetch_add(1, Ordering::Relaxed))
}

fn open_file(options: &SqliteOptions) -> Result<SqliteHandle, OpenError> {
    let path = &options.path;
    make_folder(path).map_err(|error| folder_error(path, error))?;
    // A file that another program made gets no lock file beside it.
    if path.is_file() && !lock::lock_path(path).exists() {
        check_file(options)?;
    }
    let lock = Lock::take(path).map_err(|error| match error {
        LockError::Held(pid) => OpenError::Locked { pid, path: path.clone() },
        LockError::Io(error) => io_error(path, error),
    })?;
    make_file(path).map_err(|error| io_error(path, error))?;
    check_file(options)?;
    let writer = writer(options).map_err(|error| sqlite_error(path, error))?;
    refuse_newer(path, &writer)?;
    start(options, writer, Some(lock))
}

/// Whether the file may be opened for writing, which changes it. Does not change it.
fn check_file(options: &SqliteOptions) -> Result<(), OpenError> {
    let path = &options.path;
    // SQLite takes an empty file for a new database.
    if fs::metadata(path).is_ok_and(|data| data.len() == 0) {
        return Ok(());
    }
    let connection = reader(options).map_err(|error| sqlite_error(path, error))?;
    identity::refuse_foreign(path, &connection)
}

/// The file's newest migration, 0 without any; refused when it is newer than this program.
pub(crate) fn refuse_newer(path: &Path, connection: &Connection) -> Result<u32, OpenError> {
    let newest = migrate::newest_applied(connection).map_err(|error| sqlite_error(path, error))?;
    let known = migrate::newest_known();
    match newest {
        Some((found, name)) if found > known => {
            Err(OpenError::NewerSchema { path: path.to_owned(), found, name, known })
        }
        Some((found, _)) => Ok(found),
        None => Ok(0),
    }
}

fn status_of_file(path: &Path) -> Result<Vec<Migration>, OpenError> {
    match fs::metadata(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(migrate::none_applied()),
        Err(error) => return Err(io_error(path, error)),
    }
    let options = SqliteOptions::new(path);
    let connection = reader(&options).map_err(|error| sqlite_error(path, error))?;
    identity::refuse_foreign(path, &connection)?;
    refuse_newer(path, &connection)?;
    migrate::status(&connection).map_err(|failure| match failure {
        Failure::Sqlite(error) => sqlite_error(path, error),
        Failure::Store(error) => OpenError::Other { path: path.to_owned(), source: error.into() },
    })
}

fn start(options: &SqliteOptions, writer: Connection, lock: Option<Lock>) -> Result<SqliteHandle, OpenError> {
    let path = &options.path;
    let readers: Result<Vec<_>, _> = (0..options.readers.clamp(1, 16)).map(|_| reader(options)).collect();
    let readers = readers.map_err(|error| sqlite_error(path, error))?;
    let readers = Readers::start(readers, options.queue).map_err(|error| io_error(path, error))?;
    // Made after the readers are open: the log and its index exist by now.
    let condition = if lock.is_some() { Condition::of_file(path) } else { Condition::in_memory() };
    let collecting = Collecting::begin_if_kept(&writer).map_err(|error| sqlite_error(path, error))?;
    let (queue, batch_max) = (options.queue, options.group_commit_max);
    let writer = Writer::start(writer, queue, batch_max, condition, collecting.clone(), Box::new(lock))
        .map_err(|error| io_error(path, error))?;
    Ok(SqliteHandle {
        sqlite: Arc::new(Sqlite { readers, writer, header_tables: Arc::default(), collecting }),
    })
}

pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)
        }
        Some(_) | None => Ok(()),
    }
}

/// SQLite gives its other files this file's mode.
fn make_file(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map(|_| ())
}

fn writer(options: &SqliteOptions) -> rusqlite::Result<Connection> {
    let connection = connect(options, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = if options.synchronous_full { "FULL" } else { "NORMAL" };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "journal_size_limit", bytes(options.journal_bytes))?;
    connection.pragma_update(None, "wal_autocheckpoint", 1000)?;
    // Deleted content is overwritten if that costs no further page.
    connection.pragma_update(None, "secure_delete", "FAST")?;
    Ok(connection)
}

pub(crate) fn reader(options: &SqliteOptions) -> rusqlite::Result<Connection> {
    connect(options, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn connect(options: &SqliteOptions, mode: OpenFlags) -> rusqlite::Result<Connection> {
    let uri = if options.path.starts_with("file:") { OpenFlags::SQLITE_OPEN_URI } else { OpenFlags::empty() };
    let flags = mode | uri | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&options.path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans ignore bound values. Otherwise SQLite prepares a statement again for each new value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "trusted_schema", "OFF")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Negative: KiB and not pages.
    connection.pragma_update(None, "cache_size", -bytes(options.cache_bytes / 1024))?;
    Ok(connection)
}

fn bytes(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
