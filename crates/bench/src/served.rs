//! Servers in processes of their own.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use kith_lab_servers::{child::free_port, usage};
use tempfile::TempDir;

/// Addresses of the servers of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreAddresses<'a> {
    pub(crate) mongodb: &'a str,
    pub(crate) cql: &'a str,
    pub(crate) redis: Option<&'a str>,
}

/// A server. Dropping it ends the process and removes its data.
#[derive(Debug)]
pub(crate) struct Served {
    /// Where it answers.
    pub(crate) address: SocketAddr,
    child: Child,
    _data: TempDir,
}

impl Served {
    /// A node with an empty embedded store, whose memory tier keeps what it holds as long as the run takes.
    pub(crate) fn kith(program: &Path) -> Result<Self> {
        Self::start(program, embedded)
    }

    /// The same, which takes calls with this key alone.
    pub(crate) fn kith_with_key(program: &Path, key: &str) -> Result<Self> {
        Self::start(program, |command, address, data| {
            embedded(command, address, data);
            command.env("KITH_API_KEY", key);
        })
    }

    /// The same with this configuration file, which takes calls with this key, and those of users. Their quotas are counted, and so
    /// large that none is used up.
    pub(crate) fn kith_with_users(program: &Path, config: &Path, key: &str) -> Result<Self> {
        Self::start(program, |command, address, data| {
            embedded(command, address, data);
            command.arg("--config").arg(config).env("KITH_API_KEY", key);
            for quota in ["user_calls_per_second", "user_writes_per_second", "user_records_per_minute"] {
                command.args(["--set", &format!("limits.{quota}=1000000000")]);
            }
        })
    }

    /// A node of a cluster over this Redis and an empty database of this MongoDB, the rest as [`Self::kith`].
    pub(crate) fn kith_of_cluster(program: &Path, mongodb: &str, redis: &str) -> Result<Self> {
        let name = format!("kith_bench_{}", std::process::id());
        Self::start(program, |command, address, _data| {
            command.args(["serve", &format!("--listen={address}"), "--log=warn"]);
            command.args(["--set", "operations.listen=127.0.0.1:0", "--set", "cache.ttl=1h"]);
            command.args(["--set", "store.backend=cluster"]);
            command.args(["--set", &format!("store.mongodb.database={name}")]);
            command.args(["--set", &format!("redis.prefix={name}")]);
            command.env("KITH_STORE__MONGODB__URI", mongodb).env("KITH_REDIS__URL", redis);
        })
    }

    /// A node of a cluster without peers, over this database of MongoDB and the keyspace of the same name, with a Redis if
    /// there is one.
    pub(crate) fn kith_over(program: &Path, stores: StoreAddresses<'_>, name: &str) -> Result<Self> {
        Self::start(program, |command, address, _data| {
            command.args(["serve", &format!("--listen={address}"), "--log=warn"]);
            command.args(["--set", "operations.listen=127.0.0.1:0", "--set", "cache.ttl=1h"]);
            command.args(["--set", "store.backend=cluster"]);
            command.args(["--set", &format!("store.mongodb.database={name}")]);
            command.args(["--set", &format!("store.cql.keyspace={name}")]);
            command.args(["--set", &format!("store.cql.contact_points={}", stores.cql)]);
            command.args(["--set", &format!("redis.prefix={}", prefix_of(name))]);
            command.env("KITH_STORE__MONGODB__URI", stores.mongodb);
            command.envs(stores.redis.map(|redis| ("KITH_REDIS__URL", redis)));
        })
    }

    /// The bare server of [`crate::echo`].
    pub(crate) fn echo() -> Result<Self> {
        Self::start(&std::env::current_exe()?, |command, address, _data| {
            command.args(["echo-server", &address.to_string()]);
        })
    }

    /// The same, which takes calls with this key alone.
    pub(crate) fn echo_with_key(key: &str) -> Result<Self> {
        Self::start(&std::env::current_exe()?, |command, address, _data| {
            command.args(["echo-server", &address.to_string(), "--key", key]);
        })
    }

    /// The server of [`crate::frames`].
    pub(crate) fn frames(behind_edge: bool) -> Result<Self> {
        Self::start(&std::env::current_exe()?, |command, address, _data| {
            command.args(["frames-server", &address.to_string()]).args(behind_edge.then_some("--edge"));
        })
    }

    fn start(program: &Path, arguments: impl FnOnce(&mut Command, SocketAddr, &Path)) -> Result<Self> {
        let data = TempDir::new()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut command = Command::new(program);
        // No more threads on one side than on the other, and no configuration from around.
        command.env_clear().env("TOKIO_WORKER_THREADS", "2").current_dir(data.path()).stdin(Stdio::null());
        arguments(&mut command, address, data.path());
        let child = command.stdout(Stdio::null()).spawn();
        let child = child.with_context(|| format!("{} does not start", program.display()))?;
        Ok(Self { address, child, _data: data })
    }

    /// Ends its process at once.
    ///
    /// # Errors
    /// When the system does not.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Memory that it holds now, in MiB.
    pub(crate) fn resident_mib(&self) -> Result<f64> {
        usage::resident_mib(self.child.id())
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Seconds of processor time that it has taken so far, in its own code and in the kernel.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        usage::cpu_seconds(self.child.id())
    }

    /// The most memory that it has held since [`Self::forget_peak`], in MiB.
    pub(crate) fn peak_mib(&self) -> Result<f64> {
        usage::peak_mib(self.child.id())
    }

    /// Lets [`Self::peak_mib`] begin with what it holds now.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        usage::forget_peak(self.child.id())
    }
}

/// What a node over an embedded store is started with.
fn embedded(command: &mut Command, address: SocketAddr, data: &Path) {
    let data = format!("--data-dir={}", data.display());
    command.args(["serve", &format!("--listen={address}"), &data, "--log=warn"]);
    command.args(["--set", "operations.listen=127.0.0.1:0", "--set", "cache.ttl=1h"]);
}

/// A prefix of its own for each database, shorter than the name of one may be: a node waits for the prefix of another.
fn prefix_of(database: &str) -> String {
    let hash = database.bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    format!("kith_bench_{hash:x}")
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to be done about either then.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
