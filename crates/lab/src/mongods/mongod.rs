//! A MongoDB that a run may interfere with in any way.

use std::{
    env,
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};
use kith_lab_servers::child::{ChildProcess, free_port};
use mongodb::{Client, Database, bson::Document, options::ClientOptions};
use tempfile::TempDir;

/// Names the replica set.
pub(super) const SET: &str = "rs0";
/// Names the program.
const PROGRAM: &str = "KITH_TEST_MONGOD";
/// The lifetime that docs/operate/cluster.md advises: a killed node's open transactions lock their records
/// for so long, by default a minute.
const LIFETIME: &str = "transactionLifetimeLimitSeconds=5";
/// How long one question may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A replica set member, in a separate process. It ends with the value.
#[derive(Debug)]
pub struct Mongod {
    port: u16,
    folder: TempDir,
    /// The folder with its data; `None`: in its folder.
    data: Option<PathBuf>,
    /// `None`: killed.
    process: Option<ChildProcess>,
}

impl Mongod {
    /// Starts a member that belongs to no set yet. The program is the file that `KITH_TEST_MONGOD` names,
    /// else `mongod` on the path. `data`: its data folder, if it does not get a temporary folder.
    pub(super) fn start(data: Option<PathBuf>) -> Result<Self> {
        let mut mongod = Self { port: free_port()?, folder: TempDir::new()?, data, process: None };
        mongod.run()?;
        Ok(mongod)
    }

    /// The address that it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }

    /// Ends it at once, as `kill -9` does; journalled writes stay.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Whether it has ended, by itself or otherwise.
    ///
    /// # Errors
    /// If that is not known.
    pub fn ended(&mut self) -> Result<bool> {
        self.process.as_mut().map_or(Ok(true), |process| Ok(process.ended()?.is_some()))
    }

    /// Sends it the signal with this name, without `SIG`.
    ///
    /// # Errors
    /// When it was killed.
    pub fn signal(&self, name: &str) -> Result<()> {
        self.process.as_ref().context("mongod was killed")?.signal(name)
    }

    /// The answer to one command on `admin`, from this member itself.
    ///
    /// # Errors
    /// If there is no answer, or it is an error.
    pub async fn ask(&self, command: Document) -> Result<Document> {
        Ok(self.database("admin").await?.run_command(command).await?)
    }

    /// The database with this name, as this member itself has it. The member need not answer.
    pub(super) async fn database(&self, name: &str) -> Result<Database> {
        let uri = format!("mongodb://{}/?directConnection=true", self.address());
        let mut options = ClientOptions::parse(uri).await?;
        options.server_selection_timeout = Some(ANSWER_WITHIN);
        options.connect_timeout = Some(ANSWER_WITHIN);
        Ok(Client::with_options(options)?.database(name))
    }

    /// Starts it over the data that it has.
    pub(super) fn run(&mut self) -> Result<()> {
        let program = env::var_os(PROGRAM).filter(|program| !program.is_empty());
        let mut command = Command::new(program.unwrap_or_else(|| OsString::from("mongod")));
        let port = self.port.to_string();
        command.args(["--replSet", SET, "--port", &port, "--bind_ip", "127.0.0.1"]);
        // With test commands it also names itself to the members it calls, which proxies read.
        command.args(["--wiredTigerCacheSizeGB=0.25", "--setParameter", "enableTestCommands=1"]);
        command.args(["--setParameter", "diagnosticDataCollectionEnabled=false", "--dbpath"]);
        command.arg(self.data.as_deref().unwrap_or(self.folder.path())).args(["--setParameter", LIFETIME]);
        let log = self.folder.path().join("mongod.log");
        let started = ChildProcess::start("mongod", command, log);
        self.process = Some(started.with_context(|| format!("{PROGRAM} names the program"))?);
        Ok(())
    }

    /// Whether it was not killed.
    pub(super) const fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// # Errors
    /// When it has ended by itself, with its last words; or was killed.
    pub(super) fn ensure_alive(&mut self) -> Result<()> {
        self.process.as_mut().context("mongod was killed")?.ensure_alive()
    }
}
