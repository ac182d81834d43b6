//! A node with an embedded store, whose log a row may read or not.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{ChildStderr, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};
use kith_lab_servers::{
    child::{ChildProcess, free_port},
    imported::fill_up_to,
};
use tempfile::TempDir;
use tokio::time::timeout;
use tonic::transport::Endpoint;

use crate::scrape;

/// How long its metrics may take.
const SCRAPED_WITHIN: Duration = Duration::from_secs(5);

/// A node in a separate process, over an embedded store with some users.
#[derive(Debug)]
pub(super) struct EmbeddedNode {
    pub(super) address: SocketAddr,
    pub(super) operations: SocketAddr,
    process: ChildProcess,
    _data: TempDir,
}

impl EmbeddedNode {
    /// Starts a node with these additional settings and the users 1 to `users`. Its standard error is piped
    /// to this process: [`Self::stderr`].
    pub(super) async fn start(kith: &Path, settings: &[String], users: i64) -> Result<Self> {
        let data = TempDir::new()?;
        let port = || Ok::<_, anyhow::Error>(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)));
        let (address, operations) = (port()?, port()?);
        let mut command = Command::new(kith);
        command.env_clear().current_dir(data.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.args(["serve", &format!("--listen={address}"), "--set", "drain_wait=0s"]);
        command.args(["--set", &format!("operations.listen={operations}")]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        let process = ChildProcess::start_configured("kith", command, data.path().join("kith.log"))?;
        let node = Self { address, operations, process, _data: data };
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect_lazy();
        fill_up_to(channel, users).await?;
        Ok(node)
    }

    /// Takes the pipe with its standard error. Can be called once.
    pub(super) fn stderr(&mut self) -> Result<ChildStderr> {
        self.process.stderr().context("it was taken before")
    }

    /// The value that a metric without labels has; 0 as long as nothing was counted.
    pub(super) async fn metric(&self, name: &str) -> Result<f64> {
        let text =
            timeout(SCRAPED_WITHIN, scrape::metrics(self.operations)).await.context("no metrics")??;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.map_or(Ok(0.0), str::parse)?)
    }

    /// Asks it to end. Returns how long that took.
    pub(super) async fn end(mut self) -> Result<Duration> {
        self.process.end().await
    }
}
