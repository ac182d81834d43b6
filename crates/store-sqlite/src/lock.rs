//! One process for each data file: a lock on a file next to it, which the system drops with the process.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Holds the lock until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    #[expect(dead_code, reason = "the lock lasts as long as the open file")]
    file: File,
}

/// Why the lock was refused.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Another process has it; `None`: its id cannot be read.
    Held(Option<u32>),
    Io(io::Error),
}

impl Lock {
    /// Takes the data file's lock at `path`, and writes the process id into it.
    pub(crate) fn take(path: &Path) -> Result<Self, LockError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(lock_path(path)).map_err(LockError::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held(holder(&mut file))),
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        note(&mut file).map_err(LockError::Io)?;
        Ok(Self { file })
    }
}

/// The file that is locked, for the data file at `path`.
pub(crate) fn lock_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    name.into()
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn note(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
