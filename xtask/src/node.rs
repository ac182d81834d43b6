//! A node that a task starts.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

/// How long the node may take to serve.
const SERVES_WITHIN: Duration = Duration::from_secs(60);

/// A node in memory. Stopped when dropped.
pub(crate) struct Node {
    child: Child,
    folder: PathBuf,
    address: String,
}

impl Node {
    /// Starts this program, and waits until it has written where it serves.
    pub(crate) fn start(program: &Path) -> Result<Self> {
        let folder = env::temp_dir().join(format!("kith-node-{}", process::id()));
        fs::create_dir_all(&folder)?;
        // A relative path would be below the folder of the node.
        let mut command = Command::new(fs::canonicalize(program)?);
        command.args(["serve", "--ephemeral", "--exit-with-parent", "--log", "error", "--port", "0"]);
        command.args(["--operations-port", "0", "--ports-file", "ports"]);
        command.current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().context("the node does not start")?;
        let mut node = Self { child, folder, address: String::new() };
        node.wait()?;
        Ok(node)
    }

    /// Where it serves gRPC.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn wait(&mut self) -> Result<()> {
        let give_up = Instant::now() + SERVES_WITHIN;
        let ports = self.folder.join("ports");
        while !ports.exists() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the node has ended ({status})");
            }
            ensure!(Instant::now() < give_up, "the node does not serve in time");
            thread::sleep(Duration::from_millis(20));
        }
        let ports: serde_json::Value = serde_json::from_str(&fs::read_to_string(ports)?)?;
        ports["grpc"].as_str().context("the node names no port")?.clone_into(&mut self.address);
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Failures cannot be reported from here.
        self.child.kill().ok();
        self.child.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}
