//! Processes that end with the value that represents them, and with this process however that ends.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Child, ChildStderr, Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use rand::Rng as _;
use tokio::time::{Instant, sleep};

use crate::signal::signal;

/// The ports are below those that the kernel gives to outgoing connections: such a connection could otherwise
/// take the port of a server that is away, or even connect to itself there.
const PORTS: Range<u16> = 15_000..32_000;
const PORTS_TRIED: usize = 100;
/// How many of the last log lines an error contains as the reason why a process has ended.
const LAST_WORDS: usize = 3;
/// How long a process may take to end when it was asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);

/// A process that ends with this value, and with this process.
#[derive(Debug)]
pub struct ChildProcess {
    name: &'static str,
    process: Child,
    /// Kills the process once our end of its input is gone.
    watcher: Child,
    log: PathBuf,
}

impl ChildProcess {
    /// Starts the process. Its output goes to the log.
    ///
    /// # Errors
    /// When it does not start, or the log cannot be written.
    pub fn start(name: &'static str, mut command: Command, log: PathBuf) -> Result<Self> {
        let output = File::options().create(true).append(true).open(&log)?;
        command.stderr(output.try_clone()?).stdout(output);
        Self::start_configured(name, command, log)
    }

    /// Like [`Self::start`], but for a command that already knows where to write its output. Only the end of
    /// the log is read.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_configured(name: &'static str, mut command: Command, log: PathBuf) -> Result<Self> {
        command.stdin(Stdio::null());
        let mut process = command.spawn().with_context(|| format!("{name} does not start"))?;
        match watch(&process) {
            Ok(watcher) => Ok(Self { name, process, watcher, log }),
            Err(error) => {
                end(&mut process);
                Err(error)
            }
        }
    }

    /// # Errors
    /// When it has ended by itself, with its last words.
    pub fn ensure_alive(&mut self) -> Result<()> {
        let Some(status) = self.process.try_wait()? else { return Ok(()) };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(LAST_WORDS).collect();
        bail!("{} ended ({status}): {}", self.name, last.join("; "))
    }

    /// Whether it has ended, and well.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn ended(&mut self) -> Result<Option<bool>> {
        Ok(self.process.try_wait()?.map(|status| status.success()))
    }

    /// Whether the process was killed or ended itself without a message.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn aborted(&mut self) -> Result<bool> {
        Ok(self.process.try_wait()?.is_some_and(|status| status.signal().is_some()))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Takes the pipe with its standard error, once, if the command piped it.
    pub const fn stderr(&mut self) -> Option<ChildStderr> {
        self.process.stderr.take()
    }

    /// Asks it to end, and waits until it has. Returns how long that took.
    ///
    /// # Errors
    /// When it does not end well within 15 s.
    pub async fn end(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.signal("TERM")?;
        ensure!(self.until_ended(ENDS_WITHIN).await?, "{} does not end well", self.name);
        Ok(began.elapsed())
    }

    /// Waits until it has ended. Returns whether it has ended well.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn until_ended(&mut self, within: Duration) -> Result<bool> {
        let began = Instant::now();
        loop {
            if let Some(well) = self.ended()? {
                return Ok(well);
            }
            ensure!(began.elapsed() < within, "{} does not end within {within:?}", self.name);
            sleep(POLL).await;
        }
    }

    /// Sends the signal with this name, without `SIG`.
    ///
    /// # Errors
    /// When it does not take the signal.
    pub fn signal(&self, name: &str) -> Result<()> {
        signal(self.process.id(), name)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The watcher ends first, while the process id surely still belongs to it.
        end(&mut self.watcher);
        end(&mut self.process);
    }
}

/// A port that is free. This process gets each port of the range once before it gets one again. Another
/// program may take it before it is used.
///
/// # Errors
/// When none was found.
pub fn free_port() -> Result<u16> {
    free_ports(1)
}

/// Finds `count` adjacent free ports and returns the first, like [`free_port`]: for a server that uses the
/// ports after its own.
///
/// # Errors
/// When none were found.
pub fn free_ports(count: u16) -> Result<u16> {
    // Random at first, so that processes that run at the same time begin apart.
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(rand::rng().random_range(PORTS)));
    let block = |next: u16| {
        let first = if next + count <= PORTS.end { next } else { PORTS.start };
        first..first + count
    };
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    (0..PORTS_TRIED)
        .filter_map(|_| {
            NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| Some(block(next).end)).ok()
        })
        .map(block)
        .find(|ports| ports.clone().all(is_free))
        .map(|ports| ports.start)
        .context("no free port on the loopback")
}

fn watch(process: &Child) -> Result<Child> {
    let mut watcher = Command::new("sh");
    watcher.args(["-c", "read -r _; kill -9 \"$0\"", &process.id().to_string()]);
    watcher.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    watcher.spawn().context("sh does not start")
}

fn end(child: &mut Child) {
    // Failures cannot be reported from here.
    drop(child.kill());
    drop(child.wait());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Servers that start at the same time choose their ports before any of them listens.
    #[test]
    fn free_ports_are_distinct() {
        let ports: BTreeSet<u16> = (0..1_000).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 1_000);
    }

    #[test]
    fn adjacent_ports_have_one_owner() {
        let mut ports = BTreeSet::new();
        for _ in 0..300 {
            let first = free_ports(3).unwrap();
            ports.extend([first, first + 1, first + 2, free_port().unwrap()]);
        }
        assert_eq!(ports.len(), 1_200);
    }
}
