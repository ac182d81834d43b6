//! Runs test nodes as processes, in an empty working folder.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde::Deserialize;
use tempfile::TempDir;

use crate::{
    polls::block_until,
    spawned::{Started, kith},
};

/// No step in these tests takes this long, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The contents of the ports file.
#[derive(Debug, Deserialize)]
pub(crate) struct Ports {
    pub(crate) grpc: String,
    pub(crate) operations: String,
    pub(crate) pid: u32,
}

/// A node that serves; killed when dropped.
pub(crate) struct Node {
    pub(crate) ports: Ports,
    /// The time from its start until it announced that it serves.
    pub(crate) ready: Duration,
    process: Started,
    folder: TempDir,
}

/// Returns `kith serve` on free ports, in this folder, with its ports file there.
pub(crate) fn serve(folder: &Path, flags: &[&str]) -> Command {
    let mut command =
        kith(folder, &["serve", "--port", "0", "--operations-port", "0", "--ports-file", "ports.json"]);
    command.args(flags);
    command
}

impl Node {
    /// Starts a node with these flags.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), flags)
    }

    pub(crate) fn start_in(folder: TempDir, flags: &[&str]) -> Self {
        let begun = Instant::now();
        let process = Started::of(serve(folder.path(), flags));
        let ports = ports(folder.path());
        Self { ports, ready: begun.elapsed(), process, folder }
    }

    /// Ends it in order. Returns its code, its standard error, and the files that it left in its folder.
    pub(crate) fn stop(self) -> (Option<i32>, String, Vec<PathBuf>) {
        let (code, _, errors) = self.process.terminate();
        (code, errors, files(self.folder.path()))
    }
}

/// Waits until a node there has written its addresses.
pub(crate) fn ports(folder: &Path) -> Ports {
    let file = folder.join("ports.json");
    block_until(PATIENCE, || file.exists(), || "no node serves");
    serde_json::from_slice(&fs::read(&file).unwrap()).expect("the file is whole when it is there")
}

pub(crate) fn listens(address: &str) -> bool {
    TcpStream::connect(address).is_ok()
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}
