//! A Cassandra for a fault run, and a Cassandra that runs share.

use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
    process::Command,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use kith_lab_servers::{
    child::{ChildProcess, free_ports},
    wait,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Mutex,
    time::timeout,
};

/// Names the program. It gets a folder and the first of three ports, and runs a Cassandra with its data there
/// until it is killed. With [`LASTING`] as third argument, acknowledged writes outlast that.
const PROGRAM: &str = "KITH_TEST_CASSANDRA";
/// By default it loses writes from the last 100 ms before its death: it syncs its log periodically.
const LASTING: &str = "lasting";
/// The ports it takes: its own, and two for other Cassandras and for JMX.
const PORTS: u16 = 3;
/// Java starts slowly, more so if others take the processors.
const READY_WITHIN: Duration = Duration::from_secs(180);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The protocol's OPTIONS frame, version 4, without a body; the answer is SUPPORTED.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
const SUPPORTED: u8 = 6;

/// One node, in a separate process. It ends with the value.
#[derive(Debug)]
pub struct Cassandra {
    port: u16,
    folder: TempDir,
    /// Its acknowledged writes survive its death.
    lasting: bool,
    /// `None`: killed.
    process: Option<ChildProcess>,
}

/// The part of a Cassandra that a run may use.
#[derive(Debug)]
pub(super) enum CassandraAccess {
    /// A keyspace in a server that others use, too.
    Shared(Arc<Cassandra>),
    /// The whole server.
    Exclusive(Cassandra),
}

impl Cassandra {
    /// Starts a Cassandra that may be killed, by the program that `KITH_TEST_CASSANDRA` names, and waits
    /// until it answers. Acknowledged writes are on its disk.
    ///
    /// # Errors
    /// If there is no such program, or it does not answer within three minutes.
    pub(super) async fn lasting() -> Result<Self> {
        Self::start(true).await
    }

    /// Returns the Cassandra that runs share, and starts it if no run has it yet. It ends with the last run
    /// that has it.
    ///
    /// # Errors
    /// If there is no such program, or it does not answer within three minutes.
    pub async fn shared() -> Result<Arc<Self>> {
        static SHARED: Mutex<Weak<Cassandra>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(cassandra) = shared.upgrade() {
            return Ok(cassandra);
        }
        let cassandra = Arc::new(Self::start(false).await?);
        *shared = Arc::downgrade(&cassandra);
        Ok(cassandra)
    }

    /// The address of its CQL port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }

    /// Ends it at once, as `kill -9` does.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    async fn start(lasting: bool) -> Result<Self> {
        let mut cassandra =
            Self { port: free_ports(PORTS)?, folder: TempDir::new()?, lasting, process: None };
        cassandra.restart().await?;
        Ok(cassandra)
    }

    /// Starts it over the data that it has, and waits until it answers.
    pub(super) async fn restart(&mut self) -> Result<()> {
        let program = env::var_os(PROGRAM).filter(|program| !program.is_empty());
        let program =
            program.with_context(|| format!("{PROGRAM} names no program (docs/internals/laboratory.md)"))?;
        let mut command = Command::new(program);
        command.arg(self.folder.path()).arg(self.port.to_string());
        command.args(self.lasting.then_some(LASTING));
        let log = self.folder.path().join("cassandra.log");
        self.process = Some(ChildProcess::start("Cassandra", command, log)?);
        wait::until("Cassandra does not answer", READY_WITHIN, async || {
            self.process.as_mut().context("Cassandra was killed")?.ensure_alive()?;
            Ok(matches!(timeout(ANSWER_WITHIN, self.asked()).await, Ok(Ok(SUPPORTED))))
        })
        .await
    }

    /// Sends it the signal with this name, without `SIG`.
    pub(super) fn signal(&self, name: &str) -> Result<()> {
        self.process.as_ref().context("Cassandra was killed")?.signal(name)
    }

    /// The kind of answer to OPTIONS.
    async fn asked(&self) -> Result<u8> {
        let mut socket = TcpStream::connect(self.address()).await?;
        socket.write_all(&OPTIONS).await?;
        let mut header = [0; 9];
        socket.read_exact(&mut header).await?;
        Ok(header[4])
    }
}

impl CassandraAccess {
    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Self::Shared(cassandra) => cassandra.address(),
            Self::Exclusive(cassandra) => cassandra.address(),
        }
    }

    /// # Errors
    /// If others use it, too.
    pub(super) fn exclusive(&mut self) -> Result<&mut Cassandra> {
        match self {
            Self::Exclusive(cassandra) => Ok(cassandra),
            Self::Shared(_) => bail!("others use this Cassandra"),
        }
    }
}

/// A keyspace that no other run has.
pub(super) fn keyspace() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("kith_hunt_{}", LAST.fetch_add(1, Ordering::Relaxed))
}
