use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use rand::Rng as _;

use crate::signal::signal;

/// Names the program.
const PROGRAM: &str = "KITH_TEST_REDIS_SERVER";
/// Below those that the kernel gives to outgoing connections: one of these could otherwise take the port of a
/// server that is away, or even connect to itself there.
const PORTS: Range<u16> = 15_000..32_000;
const PORTS_TRIED: usize = 100;

/// A process that ends with the value, and with this process however that ends.
#[derive(Debug)]
pub(super) struct Process {
    server: Child,
    /// Kills the server once our end of its input is gone.
    watcher: Child,
    log: PathBuf,
}

impl Process {
    pub(super) fn start(port: u16, folder: &Path, options: &[String]) -> Result<Self> {
        let program = env::var_os(PROGRAM).filter(|program| !program.is_empty());
        let program = program.unwrap_or_else(|| OsString::from("redis-server"));
        let log = folder.join("redis.log");
        let output = File::create(&log)?;
        let mut command = Command::new(&program);
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.args(["--enable-debug-command", "yes", "--dir"]).arg(folder).args(options);
        command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        let mut server = command.spawn().with_context(|| {
            format!("{} does not start; {PROGRAM} names another one", program.to_string_lossy())
        })?;
        match watch(&server) {
            Ok(watcher) => Ok(Self { server, watcher, log }),
            Err(error) => {
                end(&mut server);
                Err(error)
            }
        }
    }

    /// # Errors
    /// When it has ended by itself, with its last words.
    pub(super) fn ensure_alive(&mut self) -> Result<()> {
        let Some(status) = self.server.try_wait()? else { return Ok(()) };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(3).collect();
        bail!("redis-server ended ({status}): {}", last.join("; "))
    }

    pub(super) fn signal(&self, name: &str) -> Result<()> {
        signal(self.server.id(), name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watcher first, while the number of the server is surely its own.
        end(&mut self.watcher);
        end(&mut self.server);
    }
}

/// A port that nobody listens on. Another program may take it before it is used.
pub(super) fn free_port() -> Result<u16> {
    let mut random = rand::rng();
    (0..PORTS_TRIED)
        .map(|_| random.random_range(PORTS))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .context("no free port on the loopback")
}

fn watch(server: &Child) -> Result<Child> {
    let mut watcher = Command::new("sh");
    watcher.args(["-c", "read -r _; kill -9 \"$0\"", &server.id().to_string()]);
    watcher.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    watcher.spawn().context("sh does not start")
}

fn end(child: &mut Child) {
    // Nobody is left who could do something about what fails here.
    drop(child.kill());
    drop(child.wait());
}
