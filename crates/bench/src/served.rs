//! Servers in separate processes.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};
use kith_lab_servers::{child::free_port, usage};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};

use crate::claims::Plan;

/// How long a server may take until it accepts connections.
const STARTS_WITHIN: Duration = Duration::from_secs(20);
/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(20);

/// Connects to a server, as soon as it accepts connections.
///
/// # Errors
/// If it does not within 20 s.
pub(crate) async fn connect(address: SocketAddr) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
    let connected = async {
        loop {
            match endpoint.connect().await {
                Ok(channel) => return channel,
                Err(_) => sleep(PAUSE).await,
            }
        }
    };
    timeout(STARTS_WITHIN, connected).await.context("the server does not start")
}

/// A server. Dropping it ends the process and removes its data.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    /// The address that the server listens on.
    pub(crate) address: SocketAddr,
    child: Child,
    _data: TempDir,
}

impl ServerProcess {
    /// A node with an empty embedded store, whose memory tier keeps its entries as long as the run takes.
    pub(crate) fn kith(plan: &Plan) -> Result<Self> {
        Self::start(&plan.program()?, |command, address, data| {
            embedded(command, address, data);
            add_settings(command, plan);
        })
    }

    /// Like `kith`, but accepts only calls with this key.
    pub(crate) fn kith_with_key(plan: &Plan, key: &str) -> Result<Self> {
        Self::start(&plan.program()?, |command, address, data| {
            embedded(command, address, data);
            command.env("KITH_API_KEY", key);
        })
    }

    /// Like `kith_with_key`, but with this configuration file, and users' calls are accepted, too. Their
    /// quotas are counted, and so large that none is used up.
    pub(crate) fn kith_with_users(plan: &Plan, config: &Path, key: &str) -> Result<Self> {
        Self::start(&plan.program()?, |command, address, data| {
            embedded(command, address, data);
            command.arg("--config").arg(config).env("KITH_API_KEY", key);
            for quota in ["user_calls_per_second", "user_writes_per_second", "user_records_per_minute"] {
                set(command, &format!("limits.{quota}"), "1000000000");
            }
        })
    }

    /// A cluster node without peers, over this MongoDB database; with a keyspace that has the same name if
    /// there is a CQL, and with a Redis if there is one.
    pub(crate) fn kith_over(
        plan: &Plan,
        database: &str,
        cql: Option<&str>,
        redis: Option<&str>,
    ) -> Result<Self> {
        let mongodb = plan.mongodb.as_deref().context("there is no MongoDB")?;
        Self::start(&plan.program()?, |command, address, _data| {
            serve(command, address);
            set(command, "store.backend", "cluster");
            set(command, "store.mongodb.database", database);
            set(command, "redis.prefix", &prefix_of(database));
            set(command, "ws.enabled", "true");
            set(command, "ws.trusted", "true");
            if let Some(cql) = cql {
                set(command, "store.cql.keyspace", database);
                set(command, "store.cql.contact_points", cql);
            }
            add_settings(command, plan);
            command.env("KITH_STORE__MONGODB__URI", mongodb);
            command.envs(redis.map(|redis| ("KITH_REDIS__URL", redis)));
        })
    }

    /// The bare server in [`crate::echo`].
    pub(crate) fn echo() -> Result<Self> {
        Self::start(&std::env::current_exe()?, |command, address, _data| {
            command.args(["echo-server", &address.to_string()]);
        })
    }

    /// The server in [`crate::frames`].
    pub(crate) fn frames(behind_edge: bool) -> Result<Self> {
        Self::start(&std::env::current_exe()?, |command, address, _data| {
            command.args(["frames-server", &address.to_string()]).args(behind_edge.then_some("--edge"));
        })
    }

    fn start(program: &Path, arguments: impl FnOnce(&mut Command, SocketAddr, &Path)) -> Result<Self> {
        let data = TempDir::new()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut command = Command::new(program);
        // Both sides have the same number of threads, and no configuration from their environment.
        command.env_clear().env("TOKIO_WORKER_THREADS", "2").current_dir(data.path()).stdin(Stdio::null());
        arguments(&mut command, address, data.path());
        let child = command.stdout(Stdio::null()).spawn();
        let child = child.with_context(|| format!("{} does not start", program.display()))?;
        Ok(Self { address, child, _data: data })
    }

    /// A connection to it, see [`connect`].
    pub(crate) async fn connect(&self) -> Result<Channel> {
        connect(self.address).await
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Seconds of processor time that it has taken so far, in its own code and in the kernel.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        usage::cpu_seconds(self.child.id())
    }
}

/// The arguments for a node over an embedded store.
fn embedded(command: &mut Command, address: SocketAddr, data: &Path) {
    serve(command, address);
    command.arg(format!("--data-dir={}", data.display()));
}

/// The arguments for every node.
fn serve(command: &mut Command, address: SocketAddr) {
    command.args(["serve", &format!("--listen={address}"), "--log=warn"]);
    set(command, "operations.listen", "127.0.0.1:0");
    set(command, "cache.ttl", "1h");
}

fn add_settings(command: &mut Command, plan: &Plan) {
    command.args(plan.settings.iter().flat_map(|setting| ["--set", setting]));
}

fn set(command: &mut Command, name: &str, value: &str) {
    command.args(["--set", &format!("{name}={value}")]);
}

/// A separate prefix for each database, shorter than a database name may be: a node waits for another node's
/// prefix.
fn prefix_of(database: &str) -> String {
    let hash = database.bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    format!("kith_bench_{hash:x}")
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself; both errors are harmless then.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
