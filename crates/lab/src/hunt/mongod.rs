//! MongoDB that a run may do anything to.

use std::{
    env,
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mongodb::{
    Client,
    bson::{Document, doc},
    options::ClientOptions,
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::child::{Watched, free_port};

/// Names the program.
const PROGRAM: &str = "KITH_TEST_MONGOD";
const SET: &str = "rs0";
/// As docs/operations.md advises: what a killed node had begun locks its records for so long, by default a minute.
const LIFETIME: &str = "transactionLifetimeLimitSeconds=5";
/// How long it may take to start and to become primary.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// How long one question may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A replica set of one member, in a process of its own. It ends with the value.
#[derive(Debug)]
pub struct Mongod {
    port: u16,
    folder: TempDir,
    /// `None`: killed.
    process: Option<Watched>,
}

impl Mongod {
    /// Starts one and waits until it is primary. The program is the one that `KITH_TEST_MONGOD` names, else
    /// `mongod` on the path.
    ///
    /// # Errors
    /// When there is no such program, or it does not become primary.
    pub async fn start() -> Result<Self> {
        let mut mongod = Self { port: free_port()?, folder: TempDir::new()?, process: None };
        mongod.run()?;
        mongod.until_answers().await?;
        let member = doc! { "_id": 0, "host": mongod.address().to_string() };
        let set = doc! { "replSetInitiate": { "_id": SET, "members": [member] } };
        mongod.ask(set).await?;
        mongod.until_primary().await?;
        Ok(mongod)
    }

    /// Where it answers.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }

    /// Ends it at once, as `kill -9` does; what it has journalled stays.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again over its data.
    ///
    /// # Errors
    /// When it does not become primary.
    pub async fn restart(&mut self) -> Result<()> {
        self.run()?;
        self.until_primary().await
    }

    /// The answer to one command on `admin`.
    ///
    /// # Errors
    /// When there is none, or it is an error.
    pub async fn ask(&self, command: Document) -> Result<Document> {
        Ok(self.client().await?.database("admin").run_command(command).await?)
    }

    fn run(&mut self) -> Result<()> {
        let program = env::var_os(PROGRAM).filter(|program| !program.is_empty());
        let mut command = Command::new(program.unwrap_or_else(|| OsString::from("mongod")));
        let port = self.port.to_string();
        command.args(["--replSet", SET, "--port", &port, "--bind_ip", "127.0.0.1"]);
        command.args(["--wiredTigerCacheSizeGB=0.25", "--setParameter", "enableTestCommands=1"]);
        command.args(["--setParameter", "diagnosticDataCollectionEnabled=false", "--dbpath"]);
        command.arg(self.folder.path()).args(["--setParameter", LIFETIME]);
        let log = self.folder.path().join("mongod.log");
        let started = Watched::start("mongod", command, log);
        self.process = Some(started.with_context(|| format!("{PROGRAM} names the program"))?);
        Ok(())
    }

    async fn client(&self) -> Result<Client> {
        let uri = format!("mongodb://{}/?directConnection=true", self.address());
        let mut options = ClientOptions::parse(uri).await?;
        options.server_selection_timeout = Some(ANSWER_WITHIN);
        Ok(Client::with_options(options)?)
    }

    async fn until_answers(&mut self) -> Result<()> {
        self.until(doc! { "ping": 1 }, |_| true).await
    }

    async fn until_primary(&mut self) -> Result<()> {
        self.until(doc! { "hello": 1 }, |hello| hello.get_bool("isWritablePrimary").unwrap_or_default()).await
    }

    async fn until(&mut self, question: Document, is: impl Fn(&Document) -> bool) -> Result<()> {
        let until = Instant::now() + READY_WITHIN;
        loop {
            self.process.as_mut().context("mongod was killed")?.ensure_alive()?;
            if self.ask(question.clone()).await.is_ok_and(|answer| is(&answer)) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "mongod is not ready within {READY_WITHIN:?}");
            sleep(POLL).await;
        }
    }
}
