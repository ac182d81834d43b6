//! Restoring a backup.
//!
//! Everything that was written after the backup is lost, but clients still hold consistency tokens, ids, and
//! sequence numbers from that time. So the backup's epoch, id counters and sequences continue above all
//! these. The highest values are read from the replaced data, if possible (except for sequences); otherwise
//! it follows from the time, as [`RestoreSkips`] says.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use kith_store::{IdKind, RestoreSkips};
use rusqlite::{Connection, params};

use super::{
    BackupError, Manifest,
    facts::{Facts, epoch, facts, has_table, is_sound, next_id, open_alone},
    files,
};
use crate::{
    OpenError, SqliteOptions, change,
    error::Failure,
    identity,
    lock::{Lock, LockError},
    migrate, open,
};

const RAISE: &str = "INSERT INTO node_state (name, value) VALUES ('epoch', ?1)
    ON CONFLICT (name) DO UPDATE SET value = ?1";
const SKIP: &str = "INSERT INTO id_counters (kind, next) VALUES (?1, ?2)
    ON CONFLICT (kind) DO UPDATE SET next = ?2";
const SKIP_SEQS: &str = "UPDATE sequences SET last = last + ?1";

/// Whether existing data may be moved away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// It may not replace anything.
    Never,
    /// It is kept under another name, next to the restored data.
    KeepAside,
}

/// How a restore ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The data file's path.
    pub path: PathBuf,
    /// The path to the replaced data.
    pub kept: Option<PathBuf>,
    /// The restored data's epoch; tokens from other epochs are invalid.
    pub epoch: u64,
    /// The backup's manifest.
    pub backup: Manifest,
}

/// Restores the backup `from` as the data file `to`; makes its folder when it is missing. Checks the whole
/// backup first: until that is done, and the new file is on the disk, nothing is changed. Raises the epoch,
/// skips ids and sequence numbers, and begins a new generation of kept changes, so that ids, tokens, numbers
/// and cursors from the lost time get no new meaning. The next start migrates the data.
///
/// Blocks its thread: reads the backup three times. Holds the data file's lock meanwhile.
///
/// # Errors
/// See [`BackupError`]; the existing data is unchanged then.
pub fn restore(from: &Path, to: &Path, replace: Replace) -> Result<Restored, BackupError> {
    if !from.exists() {
        return Err(BackupError::NoBackup { path: from.to_owned() });
    }
    let backup = Manifest::of(from)?;
    let known = migrate::newest_known();
    if backup.schema > known {
        let ours = env!("CARGO_PKG_VERSION");
        return Err(BackupError::NewerSchema { theirs: backup.kith, found: backup.schema, ours, known });
    }
    open::make_folder(to).map_err(|error| BackupError::io(to, error))?;
    let _lock = Lock::take(to).map_err(|error| match error {
        LockError::Held(pid) => OpenError::Locked { pid, path: to.to_owned() }.into(),
        LockError::Io(error) => BackupError::io(to, error),
    })?;
    if replace == Replace::Never && holds_data(to) {
        return Err(BackupError::HasData { path: to.to_owned() });
    }
    let part = files::with_suffix(to, ".restoring");
    let restored = write(from, &part, to, backup);
    if restored.is_err() {
        files::remove(&part).and_then(|()| files::remove_logs(&part)).ok();
    }
    restored
}

/// A log without its file counts, too: it belongs to data that was moved.
fn holds_data(file: &Path) -> bool {
    [file.to_owned(), files::with_suffix(file, "-wal")]
        .iter()
        .any(|file| file.metadata().is_ok_and(|file| file.len() > 0))
}

fn write(from: &Path, part: &Path, to: &Path, backup: Manifest) -> Result<Restored, BackupError> {
    let file = fetch(from, part, &backup)?;
    let replaced = ReplacedData::of(to);
    let epoch = prepare(part, from, &backup, &replaced)?;
    let failed = |error: io::Error| BackupError::failed(to, error);
    file.sync_all().map_err(failed)?;
    let kept = put_aside(to, replaced.is_folded).map_err(failed)?;
    fs::rename(part, to).and_then(|()| files::sync_folder(to)).map_err(failed)?;
    Ok(Restored { path: to.to_owned(), kept, epoch: epoch.unsigned_abs(), backup })
}

/// Copies the backup; the copy is verified against the manifest.
fn fetch(from: &Path, part: &Path, backup: &Manifest) -> Result<File, BackupError> {
    let unreadable = |source| BackupError::Unreadable { path: from.to_owned(), source };
    let source = File::open(from).map_err(unreadable)?;
    let failed = |error: io::Error| BackupError::io(part, error);
    let file = files::private(part).map_err(failed)?;
    file.set_len(0).and_then(|()| files::remove_logs(part)).map_err(failed)?;
    let (bytes, sha256) = files::copy_hashed(source, &file).map_err(failed)?;
    if bytes != backup.bytes || sha256 != backup.sha256 {
        return Err(BackupError::Damaged { path: from.to_owned() });
    }
    Ok(file)
}

/// Values in the data to be replaced.
#[derive(Debug, Default)]
struct ReplacedData {
    epoch: i64,
    /// Ordered as in [`IdKind::ALL`].
    next_ids: [i64; IdKind::ALL.len()],
    /// Whether the log is in the file.
    is_folded: bool,
}

impl ReplacedData {
    /// Reads the facts about the replaced data, which are empty if there is no data, or if it cannot be read.
    /// The file is left unchanged.
    fn of(file: &Path) -> Self {
        if file.exists() { Self::read(file).unwrap_or_default() } else { Self::default() }
    }

    fn read(file: &Path) -> rusqlite::Result<Self> {
        let connection = open::reader(&SqliteOptions::new(file))?;
        if identity::refuse_foreign(file, &connection).is_err() {
            return Ok(Self::default());
        }
        let mut next_ids = [0; IdKind::ALL.len()];
        for (next, kind) in next_ids.iter_mut().zip(IdKind::ALL) {
            *next = next_id(&connection, kind)?;
        }
        let epoch = epoch(&connection)?;
        drop(connection);
        Ok(Self { epoch, next_ids, is_folded: open_alone(file).is_ok() })
    }
}

/// Checks the copy and raises its epoch and counters above the values that clients may know. Returns the new
/// epoch.
fn prepare(part: &Path, from: &Path, backup: &Manifest, replaced: &ReplacedData) -> Result<i64, BackupError> {
    let foreign = |_| BackupError::NotABackup { path: from.to_owned() };
    let connection = open_alone(part).map_err(foreign)?;
    let Facts { schema, epoch, .. } = facts(&connection).map_err(foreign)?;
    if schema != backup.schema {
        return Err(BackupError::NotABackup { path: from.to_owned() });
    }
    if !is_sound(&connection).map_err(foreign)? {
        return Err(BackupError::Unsound { path: from.to_owned() });
    }
    let failed = |error: Failure| match error {
        Failure::Sqlite(error) => BackupError::failed(part, error),
        Failure::Store(error) => BackupError::failed(part, error),
    };
    let skips = RestoreSkips::since(backup.began);
    let raised = epoch.max(replaced.epoch).max(skips.epoch).saturating_add(1);
    advance(&connection, raised, skips, replaced).map_err(failed)?;
    connection.close().map_err(|(_, error)| BackupError::failed(part, error))?;
    Ok(raised)
}

fn advance(
    connection: &Connection,
    epoch: i64,
    skips: RestoreSkips,
    replaced: &ReplacedData,
) -> Result<(), Failure> {
    if !has_table(connection, "node_state")? {
        // A version without an epoch wrote it; a migration makes the tables.
        migrate::migrate(connection)?;
    }
    let transaction = connection.unchecked_transaction()?;
    transaction.execute(RAISE, [epoch])?;
    for (kind, replaced) in IdKind::ALL.into_iter().zip(replaced.next_ids) {
        let next = next_id(&transaction, kind)?.max(IdKind::FIRST_ALLOCATED).saturating_add(skips.ids);
        transaction.execute(SKIP, params![kind.name(), next.max(replaced)])?;
    }
    if has_table(&transaction, "sequences")? {
        transaction.execute(SKIP_SEQS, [skips.seqs])?;
    }
    if has_table(&transaction, "changes_state")? {
        change::renew_generation(&transaction)?;
    }
    Ok(transaction.commit()?)
}

/// Gives the existing data a second name with the time; the restored data then replaces the first name. So
/// the first name always has data: without it a node would begin with an empty file.
fn put_aside(file: &Path, is_folded: bool) -> io::Result<Option<PathBuf>> {
    if !holds_data(file) {
        return Ok(None);
    }
    let kept = free_name(file);
    if file.exists() && fs::hard_link(file, &kept).is_err() {
        // Some file systems have no links.
        fs::rename(file, &kept)?;
    }
    let log = files::with_suffix(file, "-wal");
    if !is_folded && log.exists() {
        // SQLite would apply it to the new file; next to its own file it is still valid.
        fs::rename(log, files::with_suffix(&kept, "-wal"))?;
    }
    files::remove_logs(file)?;
    Ok(Some(kept))
}

fn free_name(file: &Path) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stamp = now.replace(['-', ':'], "");
    let name = |number: u32| match number {
        0 => files::with_suffix(file, &format!(".before-{stamp}")),
        _ => files::with_suffix(file, &format!(".before-{stamp}-{number}")),
    };
    (0..).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(0))
}
