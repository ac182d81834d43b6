//! Keeps the state of a forwarder in a folder: `NAME.json`, and next to it a lock and requests to retry.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;
use tokio::task::spawn_blocking;

use crate::{ForwardState, SavedState};

/// The most bytes of a file.
const BYTES_MAX: u64 = 64 << 20;
const NAME_MAX: usize = 64;

/// Which parked records to send again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryRequest {
    /// Every parked record.
    All,
    /// Those with these names.
    Records(Vec<String>),
}

/// Why a state cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    /// The name cannot be that of a file.
    #[error("the name has 1 to 64 of a-z, 0-9 and -")]
    Name,
    /// Another process has the state.
    #[error("another process uses {}; only one may", .0.display())]
    Held(PathBuf),
    /// A file has other content.
    #[error("{} cannot be understood; it is a file of kith forward, or no file", .0.display())]
    Malformed(PathBuf),
    /// The system refuses a file.
    #[error("{} cannot be used: {error}", path.display())]
    Io {
        /// Where the file is.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// The files of a forwarder.
#[derive(Clone, Debug)]
pub struct StateFile {
    folder: PathBuf,
    name: String,
}

/// The files of a forwarder, which no other process uses until this value is dropped.
#[derive(Debug)]
pub struct LockedStateFile {
    files: StateFile,
    _lock: File,
}

impl StateFile {
    /// Names the files of a forwarder, without using them.
    ///
    /// # Errors
    /// When the name cannot be that of a file.
    pub fn new(folder: &Path, name: &str) -> Result<Self, StateError> {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=NAME_MAX).contains(&name.len()) || !name.bytes().all(is_allowed) {
            return Err(StateError::Name);
        }
        Ok(Self { folder: folder.to_owned(), name: name.to_owned() })
    }

    /// Creates the folder if there is none, and keeps other processes out.
    ///
    /// # Errors
    /// When another process has the state, or the folder cannot be written.
    pub fn lock(self) -> Result<LockedStateFile, StateError> {
        let failed = |path: &Path| failed(path.to_owned());
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        created.map_err(failed(&self.folder))?;
        let path = self.path("lock");
        let file = private().truncate(false).open(&path).map_err(failed(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(LockedStateFile { files: self, _lock: file }),
            Err(TryLockError::WouldBlock) => Err(StateError::Held(self.path("json"))),
            Err(TryLockError::Error(error)) => Err(StateError::Io { path, error }),
        }
    }

    /// Returns what was saved last; `None` before the first time.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self) -> Result<Option<SavedState>, StateError> {
        read(&self.path("json"))
    }

    /// Asks the forwarder to send parked records again: now if it runs, else when it starts. A later request
    /// replaces an earlier one that was not taken.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn ask_retry(&self, request: &RetryRequest) -> Result<(), StateError> {
        write(&self.path("retry"), request)
    }

    /// The file with the state.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.path("json")
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }
}

#[async_trait]
impl ForwardState for LockedStateFile {
    async fn save(&mut self, state: SavedState) -> Result<(), StateError> {
        let path = self.files.path("json");
        off_runtime(path.clone(), move || write(&path, &state)).await
    }

    async fn take_retry(&mut self) -> Result<Option<RetryRequest>, StateError> {
        let path = self.files.path("retry");
        off_runtime(path.clone(), move || {
            let request = read(&path)?;
            if request.is_some() {
                fs::remove_file(&path).map_err(failed(path))?;
            }
            Ok(request)
        })
        .await
    }
}

async fn off_runtime<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
) -> Result<T, StateError> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(failed(path)(io::Error::other(error))))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => serde_json::from_slice(&bytes).map(Some).map_err(|_| StateError::Malformed(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path.to_owned())(error)),
    }
}

/// Replaces a file durably: after a failure it has either the new or the previous content.
fn write(path: &Path, content: &impl Serialize) -> Result<(), StateError> {
    let sibling = path.with_added_extension("new");
    let write = || -> io::Result<()> {
        let mut file = private().truncate(true).open(&sibling)?;
        file.write_all(&serde_json::to_vec(content)?)?;
        file.sync_all()?;
        fs::rename(&sibling, path)?;
        File::open(path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new(".")))?
            .sync_all()
    };
    write().map_err(failed(path.to_owned()))
}

/// Opens files to write them, which only their owner may read: they say which records there are.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

fn failed(path: PathBuf) -> impl FnOnce(io::Error) -> StateError {
    move |error| StateError::Io { path, error }
}
