//! A node over a data file that is killed, and started again at the same address.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Result, ensure};
use kith_lab_servers::{
    child::{ChildProcess, free_port},
    wait,
};
use kith_proto::change::v1::{GetCursorRequest, change_service_client::ChangeServiceClient};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

/// How long a node may take until it answers.
const SERVES_WITHIN: Duration = Duration::from_secs(60);

/// A node in a process of its own, and its folder.
#[derive(Debug)]
pub(super) struct FileNode {
    kith: PathBuf,
    address: SocketAddr,
    settings: Vec<String>,
    folder: TempDir,
    /// `None`: it does not run.
    process: Option<ChildProcess>,
}

impl FileNode {
    /// Starts a node with these settings, and waits until it answers.
    pub(super) async fn start(kith: &Path, settings: &[&str]) -> Result<Self> {
        let port = || Ok::<_, anyhow::Error>(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)));
        let (address, operations) = (port()?, port()?);
        let operations = format!("operations.listen={operations}");
        let settings = settings.iter().map(|setting| (*setting).to_owned()).chain([operations]).collect();
        let mut node =
            Self { kith: kith.to_owned(), address, settings, folder: TempDir::new()?, process: None };
        node.run().await?;
        Ok(node)
    }

    /// The way to call it, whichever process runs.
    pub(super) fn channel(&self) -> Result<Channel> {
        Ok(Endpoint::from_shared(format!("http://{}", self.address))?.connect_lazy())
    }

    /// Ends it at once, as `kill -9` does.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it, and waits until it answers.
    pub(super) async fn run(&mut self) -> Result<()> {
        let mut command = self.program();
        command.args(["serve", "--log=warn", &format!("--listen={}", self.address)]);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        let process = ChildProcess::start("kith", command, self.folder.path().join("kith.log"))?;
        self.process = Some(process);
        let channel = self.channel()?;
        wait::until("a node does not answer", SERVES_WITHIN, async || {
            if let Some(process) = &mut self.process {
                process.ensure_alive()?;
            }
            Ok(ChangeServiceClient::new(channel.clone()).get_cursor(GetCursorRequest {}).await.is_ok())
        })
        .await
    }

    /// Runs another command of the program in its folder, to its end.
    pub(super) fn command(&self, arguments: &[&str]) -> Result<()> {
        let output = self.program().args(arguments).output()?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kith {}: {words}", arguments.join(" "));
        Ok(())
    }

    fn program(&self) -> Command {
        let mut command = Command::new(&self.kith);
        command.env_clear().current_dir(self.folder.path());
        command
    }
}
