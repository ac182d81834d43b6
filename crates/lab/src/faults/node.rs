//! A node: the program itself.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::{
    child::{ChildProcess, free_port},
    wait,
};
use kith_proto::admin::v1::{
    GetCacheStatsRequest, GetNodeRequest, GetNodeResponse, admin_service_client::AdminServiceClient,
};
use tempfile::TempDir;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

/// How long a node may take until it serves from its memory.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long one question may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The configuration that all nodes in a run share.
#[derive(Clone, Debug)]
pub(super) struct NodeConfig {
    /// The program that runs a node.
    pub(super) kith: PathBuf,
    /// Database, and prefix in Redis.
    pub(super) name: String,
    /// The keyspace in Cassandra.
    pub(super) keyspace: String,
    /// Additional settings, `key=value` each.
    pub(super) settings: Vec<String>,
    /// Variables for test builds.
    pub(super) environment: Vec<(String, String)>,
}

/// A node in a separate process, always at the same address.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    /// Its connection string for MongoDB.
    mongodb: String,
    redis: SocketAddr,
    /// The address at which it reaches Cassandra; `None`: it has no Cassandra.
    cassandra: Option<SocketAddr>,
    port: u16,
    operations: u16,
    folder: TempDir,
    /// `None`: it does not run.
    process: Option<ChildProcess>,
    /// When it was started, each time.
    starts: Vec<std::time::Instant>,
    channel: Channel,
}

impl Node {
    /// Starts a node that reaches MongoDB by this connection string, and Redis and Cassandra at these
    /// addresses.
    pub(super) fn start(
        config: &NodeConfig,
        mongodb: String,
        redis: SocketAddr,
        cassandra: Option<SocketAddr>,
    ) -> Result<Self> {
        let (port, operations) = (free_port()?, free_port()?);
        // Connects when it is called, again whenever that is necessary.
        let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?.connect_lazy();
        let folder = TempDir::new()?;
        let config = config.clone();
        let mut node = Self {
            config,
            mongodb,
            redis,
            cassandra,
            port,
            operations,
            folder,
            process: None,
            starts: Vec::new(),
            channel,
        };
        node.run()?;
        Ok(node)
    }

    /// The address of its gRPC port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }

    /// The address of its operations port: `/metrics` and the rest.
    #[must_use]
    pub const fn operations(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), self.operations)
    }

    /// The way to call it; it outlives the process.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Starts it after it has ended.
    ///
    /// # Errors
    /// When the program does not start.
    pub fn run(&mut self) -> Result<()> {
        self.run_with_variables(&[])
    }

    /// Starts a test build with these variables in addition to all nodes' variables.
    ///
    /// # Errors
    /// Like [`Self::run`].
    pub fn run_with_variables(&mut self, variables: &[(&str, &str)]) -> Result<()> {
        self.starts.push(std::time::Instant::now());
        self.process = Some(ChildProcess::start("kith", self.command(variables), self.log())?);
        Ok(())
    }

    /// Like `run`, but its log is not read.
    ///
    /// # Errors
    /// Like [`Self::run`].
    pub(crate) fn run_unread(&mut self) -> Result<()> {
        self.starts.push(std::time::Instant::now());
        let mut command = self.command(&[]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        self.process = Some(ChildProcess::start_configured("kith", command, self.log())?);
        Ok(())
    }

    /// Starts it over a data file in its folder, without the other nodes' servers, after these shell
    /// commands.
    ///
    /// # Errors
    /// Like [`Self::run`].
    pub(crate) fn run_embedded(&mut self, before: &str, settings: &[&str]) -> Result<()> {
        self.starts.push(std::time::Instant::now());
        let mut command = Command::new("sh");
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(self.folder.path());
        command.arg("-c").arg(format!("{before} exec \"$@\"")).arg("sh").arg(&self.config.kith);
        command.args(["serve", "--log=warn"]).arg(format!("--listen={}", self.address()));
        let operations = format!("operations.listen={}", self.operations());
        for setting in [operations.as_str()].iter().chain(settings) {
            command.args(["--set", setting]);
        }
        self.process = Some(ChildProcess::start("kith", command, self.log())?);
        Ok(())
    }

    /// When it was started, in this order; all that a run before knew is gone.
    #[must_use]
    pub fn starts(&self) -> &[std::time::Instant] {
        &self.starts
    }

    /// The file with its log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        Path::join(self.folder.path(), "kith.log")
    }

    /// The folder where it runs: relative paths in its settings begin there.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process id.
    ///
    /// # Errors
    /// When it does not run.
    pub fn id(&self) -> Result<u32> {
        Ok(self.process.as_ref().context("the node does not run")?.id())
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Sends it the signal with this name, without `SIG`.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&self, name: &str) -> Result<()> {
        self.process.as_ref().context("the node does not run")?.signal(name)
    }

    /// Whether it has ended, by itself or otherwise.
    ///
    /// # Errors
    /// If that is not known.
    pub fn ended(&mut self) -> Result<bool> {
        self.process.as_mut().map_or(Ok(true), |process| Ok(process.ended()?.is_some()))
    }

    /// Whether it was killed or died without a message.
    ///
    /// # Errors
    /// When it has ended in another way, with its last words.
    pub(super) fn died(&mut self) -> Result<bool> {
        let process = self.process.as_mut().context("the node does not run")?;
        if !process.aborted()? {
            process.ensure_alive()?;
        }
        process.aborted()
    }

    /// Waits until it dies without a message.
    ///
    /// # Errors
    /// If it does not within the time, or ends in another way.
    pub(super) async fn until_died(&mut self, within: Duration) -> Result<()> {
        wait::until("a node does not die", within, async || self.ended()).await?;
        ensure!(self.died()?, "a node has ended, and not by dying");
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// When it does not end well in time.
    pub async fn end(&mut self) -> Result<()> {
        self.process.as_mut().context("the node does not run")?.end().await?;
        self.process = None;
        Ok(())
    }

    /// Waits until it serves, and from its memory.
    ///
    /// # Errors
    /// When it does not, or has ended.
    pub async fn until_trusted(&mut self) -> Result<()> {
        wait::until("a node does not serve from its memory", READY_WITHIN, async || {
            self.ensure_alive()?;
            // A node that starts refuses calls, and counts them as failed: first its health is asked.
            Ok(self.serves().await == Some(true)
                && self.about().await.is_ok_and(|about| about.state == "serving" && about.trusted))
        })
        .await
    }

    /// Whether its health service reports that it serves; `None`: no answer.
    pub async fn serves(&self) -> Option<bool> {
        let mut health = HealthClient::new(self.channel());
        let asked = health.check(HealthCheckRequest::default());
        let answer = timeout(ANSWER_WITHIN, asked).await.ok()?.ok()?.into_inner();
        Some(answer.status() == ServingStatus::Serving)
    }

    /// # Errors
    /// When it has ended.
    pub fn ensure_alive(&mut self) -> Result<()> {
        self.process.as_mut().context("the node does not run")?.ensure_alive()
    }

    /// A namespace's entries in its memory, and how many it has evicted for want of room.
    ///
    /// # Errors
    /// When it does not answer, or has no such namespace.
    pub(super) async fn evicted(&self, namespace: &str) -> Result<(i64, i64)> {
        let mut admin = AdminServiceClient::new(self.channel());
        let stats = timeout(ANSWER_WITHIN, admin.get_cache_stats(GetCacheStatsRequest {})).await??;
        let mut namespaces = stats.into_inner().namespaces.into_iter();
        let found =
            namespaces.find(|found| found.namespace == namespace).context("it has no such namespace")?;
        Ok((found.entries, found.evictions))
    }

    /// The node's information about itself.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn about(&self) -> Result<GetNodeResponse> {
        let mut admin = AdminServiceClient::new(self.channel());
        Ok(timeout(ANSWER_WITHIN, admin.get_node(GetNodeRequest {})).await??.into_inner())
    }

    fn command(&self, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(&self.config.kith);
        command.env_clear().current_dir(self.folder.path()).args(["serve", "--log=warn"]);
        command.arg(format!("--listen={}", self.address()));
        let name = &self.config.name;
        let usual = [
            format!("operations.listen={}", self.operations()),
            "store.backend=cluster".to_owned(),
            "users.name_kept=0s".to_owned(),
            format!("store.mongodb.database={name}"),
            format!("redis.prefix={name}"),
        ];
        let cassandra = self.cassandra.iter().flat_map(|address| {
            let keyspace = &self.config.keyspace;
            [format!("store.cql.contact_points={address}"), format!("store.cql.keyspace={keyspace}")]
        });
        let usual = usual.into_iter().chain(cassandra).chain(self.config.settings.iter().cloned());
        for setting in usual {
            command.args(["--set", &setting]);
        }
        command.env("KITH_STORE__MONGODB__URI", &self.mongodb);
        command.env("KITH_REDIS__URL", format!("redis://{}", self.redis));
        command.envs(self.config.environment.iter().map(|(name, value)| (name, value)));
        command.envs(variables.iter().copied());
        command
    }
}
