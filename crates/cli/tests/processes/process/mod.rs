//! A node as a process of its own, on free ports, with a data folder of its own.

#![expect(clippy::unwrap_used, reason = "for tests")]

use crate::port;
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Killed when dropped.
#[derive(Debug)]
pub(crate) struct Node {
    /// Where gRPC is served.
    pub(crate) grpc: String,
    /// Where operators look.
    pub(crate) operations: String,
    process: Child,
    data: tempfile::TempDir,
}

/// A busy machine takes some seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

impl Node {
    /// Starts a node and waits until it serves.
    pub(crate) fn start() -> Self {
        Self::start_over(tempfile::tempdir().unwrap())
    }

    /// The same over data that are there already, in the folder `data` of this one.
    #[allow(dead_code, reason = "every test file uses a part")]
    pub(crate) fn start_over(data: tempfile::TempDir) -> Self {
        Self::start_with(data, &[])
    }

    /// The same with these settings, as `messages.events=false`.
    pub(crate) fn start_with(data: tempfile::TempDir, settings: &[&str]) -> Self {
        let begun = Instant::now();
        let mut node = Self::run(data, settings);
        while !node.is_ready() {
            assert!(begun.elapsed() < READY_WITHIN, "the node does not become ready");
            // Another program may have taken one of its ports meanwhile.
            if node.process.try_wait().unwrap().is_some() {
                let data = std::mem::replace(&mut node.data, tempfile::tempdir().unwrap());
                node = Self::run(data, settings);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        node
    }

    fn run(data: tempfile::TempDir, settings: &[&str]) -> Self {
        let (grpc, operations) = (free_address(), free_address());
        let process = Command::new(env!("CARGO_BIN_EXE_kith"))
            .args(["--listen", &grpc, "--set", &format!("operations.listen={operations}"), "--data-dir"])
            .arg(data.path().join("data"))
            .args(settings.iter().flat_map(|setting| ["--set", *setting]))
            .current_dir(data.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { grpc, operations, process, data }
    }

    fn is_ready(&self) -> bool {
        let ready = format!("http://{}/readyz", self.operations);
        Command::new("curl").args(["-fsS", "-o", "/dev/null", &ready]).output().unwrap().status.success()
    }

    /// Where it keeps its data.
    #[allow(dead_code, reason = "every test file uses a part")]
    pub(crate) fn data(&self) -> PathBuf {
        self.data.path().join("data")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Unused for now.
pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", port::free())
}

/// The root of the workspace.
#[allow(dead_code, reason = "every test file uses a part")]
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}
