//! A node over a data file, always at the same address.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{ChildStderr, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::{
    child::{ChildProcess, free_port},
    imported::fill_up_to,
    wait,
};
use tempfile::TempDir;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

use crate::scrape;

/// How long a node may take until it serves.
const SERVES_WITHIN: Duration = Duration::from_secs(60);
/// How long its metrics may take.
const SCRAPED_WITHIN: Duration = Duration::from_secs(5);

/// A node in a separate process, and its folder.
#[derive(Debug)]
pub(super) struct EmbeddedNode {
    pub(super) address: SocketAddr,
    pub(super) operations: SocketAddr,
    kith: PathBuf,
    settings: Vec<String>,
    /// Whether its standard error is piped to this process: [`Self::stderr`].
    piped: bool,
    folder: TempDir,
    /// `None`: it does not run.
    process: Option<ChildProcess>,
}

impl EmbeddedNode {
    /// Starts a node with these additional settings and the users 1 to `users`.
    pub(super) async fn start(kith: &Path, settings: &[&str], users: i64, piped: bool) -> Result<Self> {
        let port = || Ok::<_, anyhow::Error>(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)));
        let mut node = Self {
            address: port()?,
            operations: port()?,
            kith: kith.to_owned(),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            piped,
            folder: TempDir::new()?,
            process: None,
        };
        node.run().await?;
        fill_up_to(node.channel()?, users).await?;
        Ok(node)
    }

    /// Starts it after it has ended, and waits until it serves.
    pub(super) async fn run(&mut self) -> Result<()> {
        let mut command = self.program();
        command.args(["serve", &format!("--listen={}", self.address), "--set", "drain_wait=0s"]);
        command.args(["--set", &format!("operations.listen={}", self.operations)]);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        let log = self.folder.path().join("kith.log");
        let process = self.process.insert(if self.piped {
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            ChildProcess::start_configured("kith", command, log)?
        } else {
            ChildProcess::start("kith", command, log)?
        });
        wait::until("a node does not serve", SERVES_WITHIN, async || {
            process.ensure_alive()?;
            let ready = scrape::answer(self.operations, "/readyz").await;
            Ok(ready.is_ok_and(|ready| ready.contains("\"ready\":true")))
        })
        .await
    }

    /// Ends it at once, as `kill -9` does.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    /// Asks it to end. Returns how long that took.
    pub(super) async fn end(mut self) -> Result<Duration> {
        self.process()?.end().await
    }

    /// Runs another command of the program in its folder, to its end.
    pub(super) fn command(&self, arguments: &[&str]) -> Result<()> {
        let output = self.program().args(arguments).output()?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kith {}: {words}", arguments.join(" "));
        Ok(())
    }

    /// The way to call it, whichever process runs.
    pub(super) fn channel(&self) -> Result<Channel> {
        Ok(Endpoint::from_shared(format!("http://{}", self.address))?.connect_lazy())
    }

    /// Takes the pipe with its standard error. Can be called once.
    pub(super) fn stderr(&mut self) -> Result<ChildStderr> {
        self.process()?.stderr().context("it was taken before")
    }

    /// The value that a metric without labels has; 0 as long as nothing was counted.
    pub(super) async fn metric(&self, name: &str) -> Result<f64> {
        let text =
            timeout(SCRAPED_WITHIN, scrape::metrics(self.operations)).await.context("no metrics")??;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.map_or(Ok(0.0), str::parse)?)
    }

    fn process(&mut self) -> Result<&mut ChildProcess> {
        self.process.as_mut().context("it does not run")
    }

    fn program(&self) -> Command {
        let mut command = Command::new(&self.kith);
        command.env_clear().current_dir(self.folder.path());
        command
    }
}
