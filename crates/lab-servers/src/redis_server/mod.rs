//! Redis servers that a test may do anything to: kill, stop, fill, swap, promote.

mod persistence;
mod process;

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{
    child::{ChildProcess, free_port},
    resp::{self, Value},
};

/// The file that a dump is written to and read from.
const DUMP: &str = "dump.rdb";
/// How long a server may take to start, to catch up, or to join.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long an answer may take that is not waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The pause between two checks of a condition.
const POLL: Duration = Duration::from_millis(20);
/// Ports tried before it is given up: another program may take one between the choice and the start.
const PORTS_TRIED: usize = 5;

/// A Redis in a separate process, without persistence except for requested dumps. It ends with the value, and
/// with this process however that ends.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    options: Vec<String>,
    folder: TempDir,
    /// `None`: killed.
    process: Option<ChildProcess>,
}

impl RedisServer {
    /// Starts a server on a free port and waits until it answers. Options are as on the command line, without
    /// dashes: `("maxmemory", "50mb")`.
    ///
    /// The program is the file that `KITH_TEST_REDIS_SERVER` names, else `redis-server` on the path.
    ///
    /// # Errors
    /// When there is no such program, or it does not answer.
    pub async fn start(options: &[(&str, &str)]) -> Result<Self> {
        let options: Vec<String> =
            options.iter().flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()]).collect();
        let mut failed = anyhow::anyhow!("no port was tried");
        for _ in 0..PORTS_TRIED {
            let folder = TempDir::new()?;
            let port = free_port()?;
            let mut server = Self { port, options: options.clone(), folder, process: None };
            match server.restart(None).await {
                Ok(()) => return Ok(server),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// The address that the server listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }

    /// The address in the form that clients take.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Sends one command over a new connection and returns the answer.
    ///
    /// # Errors
    /// If there is no answer within 5 s, or it is an error.
    pub async fn ask<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Value> {
        let first = words.first().map(|word| String::from_utf8_lossy(word.as_ref())).unwrap_or_default();
        let asked = timeout(ANSWER_WITHIN, ask(self.address(), words)).await;
        match asked.with_context(|| format!("no answer to {first}"))?? {
            Value::Error(error) => bail!("{first} was refused: {error}"),
            value => Ok(value),
        }
    }

    /// Reads a line from `INFO`.
    ///
    /// # Errors
    /// When there is no answer or no such line.
    pub async fn info(&self, name: &str) -> Result<String> {
        line(&self.ask(&["INFO"]).await?, name).with_context(|| format!("INFO has no {name}"))
    }

    /// Ends it at once, as `kill -9` does. Its data is lost.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Pauses it: the kernel still accepts connections for it, and there is no answer.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pause(&self) -> Result<()> {
        self.running()?.signal("STOP")
    }

    /// Resumes it after [`Self::pause`].
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self) -> Result<()> {
        self.running()?.signal("CONT")
    }

    /// Kills it if it runs, and starts it on the same port: empty, or with a dump.
    ///
    /// # Errors
    /// Like [`Self::start`].
    pub async fn restart(&mut self, dump: Option<&[u8]>) -> Result<()> {
        self.kill();
        let file = self.folder.path().join(DUMP);
        match dump {
            Some(dump) => fs::write(file, dump)?,
            None => drop(fs::remove_file(file)),
        }
        self.process = Some(process::start(self.port, self.folder.path(), &self.options)?);
        let pong = async |server: &Self| Ok(ask(server.address(), &["PING"]).await? == text("PONG"));
        self.until("answer", pong).await
    }

    /// Dumps all its data into a file that another server can start with.
    ///
    /// # Errors
    /// When it cannot write it down.
    pub async fn dump(&self) -> Result<Vec<u8>> {
        self.ask(&["SAVE"]).await?;
        Ok(fs::read(self.folder.path().join(DUMP))?)
    }

    /// Starts another server that follows this one, and waits until it has caught up.
    ///
    /// # Errors
    /// Like [`Self::start`].
    pub async fn replica(&self) -> Result<Self> {
        // It needs no disk and does not wait for other replicas that might come.
        let quick = [("repl-diskless-sync", "yes"), ("repl-diskless-sync-delay", "0")];
        for (name, value) in quick {
            self.ask(&["CONFIG", "SET", name, value]).await?;
        }
        let mut replica = Self::start(&[]).await?;
        replica.ask(&["REPLICAOF", "127.0.0.1", &self.port.to_string()]).await?;
        replica
            .until("catch up", async |replica: &Self| Ok(replica.info("master_link_status").await? == "up"))
            .await?;
        Ok(replica)
    }

    /// Makes a replica an independent server.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn promote(&self) -> Result<()> {
        self.ask(&["REPLICAOF", "NO", "ONE"]).await.map(drop)
    }

    /// Full from now on: what writes is refused, reads are answered. Or as before.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn fill_up(&self, full: bool) -> Result<()> {
        let most = if full { "1" } else { "0" };
        self.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await?;
        self.ask(&["CONFIG", "SET", "maxmemory", most]).await.map(drop)
    }

    /// The server's process id.
    ///
    /// # Errors
    /// When it does not run.
    pub fn id(&self) -> Result<u32> {
        Ok(self.running()?.id())
    }

    /// The server's log so far.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join(process::LOG))?)
    }

    fn running(&self) -> Result<&ChildProcess> {
        self.process.as_ref().context("the server was killed")
    }

    /// Waits until something is so; what fails meanwhile is tried again.
    async fn until(&mut self, what: &str, so: impl AsyncFn(&Self) -> Result<bool>) -> Result<()> {
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            let failed = match so(self).await {
                Ok(true) => return Ok(()),
                Ok(false) => String::new(),
                Err(error) => format!(": {error}"),
            };
            if let Some(process) = &mut self.process {
                process.ensure_alive()?;
            }
            ensure!(Instant::now() < give_up, "Redis does not {what} in time{failed}");
            sleep(POLL).await;
        }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

/// The value in a `name:value` line.
fn line(answer: &Value, name: &str) -> Option<String> {
    let answer = answer.text()?;
    let found = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.map(|value| value.trim().to_owned())
}

async fn ask<W: AsRef<[u8]>>(address: SocketAddr, words: &[W]) -> Result<Value> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&resp::command(words)).await?;
    let mut bytes = Vec::new();
    loop {
        if let Some((value, _)) = resp::parse(&bytes)? {
            return Ok(value);
        }
        ensure!(stream.read_buf(&mut bytes).await? > 0, "the connection ended before the answer");
    }
}
