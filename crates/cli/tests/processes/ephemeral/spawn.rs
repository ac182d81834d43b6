//! Nodes for tests as processes, in an empty working folder.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde::Deserialize;
use tempfile::TempDir;

/// Longer than anything here takes; a machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the file of the ports says.
#[derive(Debug, Deserialize)]
pub(crate) struct Ports {
    pub(crate) grpc: String,
    pub(crate) operations: String,
    pub(crate) pid: u32,
}

/// A node that serves; killed when dropped.
pub(crate) struct Node {
    pub(crate) ports: Ports,
    /// From its start until it said that it serves.
    pub(crate) ready: Duration,
    pub(crate) process: Child,
    pub(crate) folder: TempDir,
}

/// `kith serve` on free ports, in this folder, with a file of its ports there.
pub(crate) fn serve(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    command.args(["serve", "--port", "0", "--operations-port", "0", "--ports-file", "ports.json"]);
    command.args(flags).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

impl Node {
    /// Starts one with these flags.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), flags)
    }

    pub(crate) fn start_in(folder: TempDir, flags: &[&str]) -> Self {
        let begun = Instant::now();
        let process = serve(folder.path(), flags).stderr(Stdio::piped()).spawn().unwrap();
        let ports = ports(folder.path());
        Self { ports, ready: begun.elapsed(), process, folder }
    }

    /// Ends it in order. What it wrote, and what it left in its folder.
    pub(crate) fn stop(mut self) -> (Output, Vec<PathBuf>) {
        terminate(self.process.id());
        let (empty, mut ended) = (tempfile::tempdir().unwrap(), Command::new("true").spawn().unwrap());
        std::mem::swap(&mut self.process, &mut ended);
        let left = std::mem::replace(&mut self.folder, empty);
        let output = ended.wait_with_output().unwrap();
        (output, files(left.path()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Waits until a node there says where it listens.
pub(crate) fn ports(folder: &Path) -> Ports {
    let file = folder.join("ports.json");
    until("the node serves", || fs::read_to_string(&file).ok())
        .parse::<serde_json::Value>()
        .map(|ports| serde_json::from_value(ports).unwrap())
        .expect("the file is whole when it is there")
}

/// Looks again until there is an answer.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it never comes about that {what}");
        sleep(Duration::from_millis(1));
    }
}

pub(crate) fn terminate(process: u32) {
    signal("-TERM", process);
}

pub(crate) fn signal(signal: &str, process: u32) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

pub(crate) fn listens(address: &str) -> bool {
    TcpStream::connect(address).is_ok()
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}
