//! Taking a backup.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::Path,
};

use super::{
    BackupError, Manifest, Progress,
    copy::copy,
    facts::{Facts, facts, is_sound, open_alone},
    files,
    manifest::now,
};

/// Backs up the data file `from` to the file `to`, with its [`Manifest`] next to it, also while a node serves
/// from `from`. The backup shows the state at one moment after the call began; it appears under its name
/// complete, checked and on the disk, or not at all. `progress` is called for every MiB.
///
/// Blocks its thread: some milliseconds for each MiB. Only the owner can read both files, because they
/// contain the data's secrets. A process that is killed leaves `TO.part` behind, which the next backup with
/// that name replaces.
///
/// # Errors
/// See [`BackupError`]; then neither file exists.
pub fn take(from: &Path, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Manifest, BackupError> {
    if !from.metadata().is_ok_and(|file| file.len() > 0) {
        return Err(BackupError::NoData { path: from.to_owned() });
    }
    if to.exists() {
        return Err(BackupError::Exists { path: to.to_owned() });
    }
    let part = files::with_suffix(to, ".part");
    let file = claim(&part, to)?;
    let written = write(from, &part, to, &file, progress);
    if written.is_err() {
        files::remove(&part).and_then(|()| files::remove_logs(&part)).ok();
    }
    written
}

/// Locks the unfinished file for this process. The lock ends with the process.
fn claim(part: &Path, to: &Path) -> Result<File, BackupError> {
    let io = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => BackupError::NoFolder { path: files::folder(to).to_owned() },
        _ => BackupError::io(part, error),
    };
    let file = files::private(part).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(BackupError::UnderWay { path: to.to_owned() }),
        Err(TryLockError::Error(error)) => return Err(BackupError::io(part, error)),
    }
    file.set_len(0).and_then(|()| files::remove_logs(part)).map_err(io)?;
    Ok(file)
}

fn write(
    from: &Path,
    part: &Path,
    to: &Path,
    file: &File,
    progress: &mut dyn FnMut(Progress),
) -> Result<Manifest, BackupError> {
    let began = now();
    copy(from, part, progress)?;
    let facts = check(part, from)?;
    let failed = |error: io::Error| BackupError::failed(to, error);
    file.sync_all().map_err(failed)?;
    let (bytes, sha256) =
        File::open(part).and_then(|part| files::copy_hashed(part, io::sink())).map_err(failed)?;
    let manifest = Manifest {
        format: Manifest::FORMAT,
        kith: env!("CARGO_PKG_VERSION").to_owned(),
        schema: facts.schema,
        epoch: facts.epoch.unsigned_abs(),
        bytes,
        sha256,
        users: facts.users,
        groups: facts.groups,
        began,
        ended: now(),
    };
    // The manifest first: a backup that has its name has its manifest.
    manifest
        .save(to)
        .and_then(|()| fs::rename(part, to))
        .and_then(|()| files::sync_folder(to))
        .map_err(failed)?;
    Ok(manifest)
}

/// Merges the copy into one file and checks its integrity. Any faults would come from `from`.
fn check(part: &Path, from: &Path) -> Result<Facts, BackupError> {
    let failed = |error| BackupError::failed(part, error);
    let copy = open_alone(part).map_err(failed)?;
    if !is_sound(&copy).map_err(failed)? {
        return Err(BackupError::Unsound { path: from.to_owned() });
    }
    let facts = facts(&copy).map_err(failed)?;
    copy.close().map_err(|(_, error)| failed(error))?;
    Ok(facts)
}
