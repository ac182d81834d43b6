//! A node in its own process, on free ports, with its own data folder.

#![expect(clippy::unwrap_used, reason = "for tests")]

use std::path::{Path, PathBuf};

use crate::{port, spawned::Started};

/// A node that is killed when dropped.
pub(crate) struct Node {
    /// The gRPC address.
    pub(crate) grpc: String,
    /// The operations address.
    pub(crate) operations: String,
    _process: Started,
    folder: tempfile::TempDir,
}

impl Node {
    /// Starts a node and waits until it serves.
    pub(crate) fn start() -> Self {
        Self::start_with(tempfile::tempdir().unwrap(), &[])
    }

    /// Starts a node over the data in this folder's `data`, with settings such as `messages.events=false`.
    pub(crate) fn start_with(folder: tempfile::TempDir, settings: &[&str]) -> Self {
        let settings: Vec<_> = settings.iter().flat_map(|setting| ["--set", *setting]).collect();
        let process = Started::new(folder.path(), &settings);
        process.until_ready(|code, _| code == 200);
        Self { grpc: process.grpc(), operations: process.operations(), _process: process, folder }
    }

    /// Returns its data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

/// Returns an address that is unused for now.
pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", port::free())
}

/// Returns the workspace root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}
