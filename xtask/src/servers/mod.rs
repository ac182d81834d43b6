//! Finds real servers for the tests, or starts them here and stops them at the end.

mod cassandra;
mod folder;
mod mongodb;
mod ports;
mod redis;
mod wire;

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

pub(crate) use cassandra::{jars as cassandra_jars, program as cassandra_program, start as start_cassandra};
pub(crate) use folder::for_tests as folder_for_tests;
pub(crate) use mongodb::program as mongod_program;
pub(crate) use redis::program as redis_program;

/// The log file in the folder of a server that is started here.
const LOG: &str = "server.log";
/// How many log lines are printed if a server ends at once.
const LAST_LINES: usize = 20;
/// The time between two checks whether a server is ready.
const POLL: Duration = Duration::from_millis(100);

/// The servers that the tests share. Stopped when dropped.
#[derive(Debug)]
pub(crate) struct Servers {
    mongodb: TestServer,
    redis: TestServer,
    cassandra: TestServer,
}

impl Servers {
    /// Starts all servers, with their files under `folder`. Runs `meanwhile` while Cassandra starts, which
    /// takes much longer than the others.
    ///
    /// # Errors
    /// Fails if a server is not available, is not ready in time, or `meanwhile` fails.
    pub(crate) fn start(folder: &Path, meanwhile: impl FnOnce() -> Result<()>) -> Result<Self> {
        let for_cassandra = folder.to_owned();
        let cassandra = thread::spawn(move || cassandra::start(&for_cassandra));
        let (mongodb, redis) = (mongodb::start(folder)?, redis::start()?);
        meanwhile()?;
        let Ok(cassandra) = cassandra.join() else { bail!("Cassandra was not started") };
        Ok(Self { mongodb, redis, cassandra: cassandra? })
    }

    /// Returns the variables in which tests find their addresses.
    pub(crate) fn addresses(&self) -> [(&'static str, &str); 3] {
        [
            (mongodb::ADDRESS, &self.mongodb.uri),
            (redis::ADDRESS, &self.redis.uri),
            (cassandra::ADDRESS, &self.cassandra.uri),
        ]
    }
}

/// A server that tests may use. Dropping it stops the process or container that was started for it, and
/// removes its data.
#[derive(Debug)]
pub(crate) struct TestServer {
    /// The address that tests use.
    pub(crate) uri: String,
    started: OwnedServer,
}

/// The process or container that is stopped when the server is dropped.
#[derive(Debug)]
enum OwnedServer {
    /// A server that this program did not start.
    Nothing,
    /// A program with a data folder.
    Process { child: Child, folder: PathBuf },
    /// A container that Docker removes when it stops.
    Container(String),
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // Failures cannot be reported from here.
        match &mut self.started {
            OwnedServer::Nothing => {}
            OwnedServer::Process { child, folder } => {
                child.kill().ok();
                child.wait().ok();
                fs::remove_dir_all(folder).ok();
            }
            OwnedServer::Container(id) => {
                let mut remove = Command::new("docker");
                remove.args(["rm", "--force", id]).stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
            }
        }
    }
}

/// Returns the server that a variable names, which this program does not start.
fn named(variable: &str) -> Result<Option<TestServer>> {
    let Some(uri) = env::var_os(variable).filter(|uri| !uri.is_empty()) else { return Ok(None) };
    let uri = uri.into_string().ok().with_context(|| format!("{variable} is not Unicode"))?;
    Ok(Some(TestServer { uri, started: OwnedServer::Nothing }))
}

fn docker_answers() -> bool {
    let info = Command::new("docker").arg("info").stdout(Stdio::null()).stderr(Stdio::null()).status();
    info.is_ok_and(|status| status.success())
}

/// Runs an image, which listens on `inside`, with its options and arguments.
fn in_docker(port: u16, inside: u16, image_and_arguments: &[String]) -> Result<OwnedServer> {
    let mut run = Command::new("docker");
    run.args(["run", "--detach", "--rm", "--publish", &format!("127.0.0.1:{port}:{inside}")]);
    let output = run.args(image_and_arguments).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("Docker did not start {}", image_and_arguments.join(" "));
    }
    Ok(OwnedServer::Container(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}

/// Starts a program whose data and log are in its own folder. `command` gets the folder.
fn as_process(folder: &Path, command: impl FnOnce(&Path) -> Result<Command>) -> Result<OwnedServer> {
    let start = || {
        fs::create_dir_all(folder).context("no folder for the data of a server")?;
        let log = File::create(folder.join(LOG))?;
        let mut command = command(folder)?;
        command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().with_context(|| format!("{name} does not start"))
    };
    match start() {
        Ok(child) => Ok(OwnedServer::Process { child, folder: folder.to_owned() }),
        Err(error) => {
            fs::remove_dir_all(folder).ok();
            Err(error)
        }
    }
}

impl TestServer {
    /// Waits until the server is ready.
    ///
    /// # Errors
    /// Fails if it ends, or is not ready in time.
    fn once_ready(
        mut self,
        name: &str,
        within: Duration,
        mut is_ready: impl FnMut() -> Result<bool>,
    ) -> Result<Self> {
        let give_up = Instant::now() + within;
        loop {
            self.ensure_alive(name)?;
            match is_ready() {
                Ok(true) => return Ok(self),
                Err(error) if Instant::now() >= give_up => {
                    return Err(error).with_context(|| format!("{name} does not answer"));
                }
                Ok(false) if Instant::now() >= give_up => {
                    bail!("{name} is not ready after {} seconds", within.as_secs())
                }
                Ok(false) | Err(_) => thread::sleep(POLL),
            }
        }
    }

    fn ensure_alive(&mut self, name: &str) -> Result<()> {
        let OwnedServer::Process { child, folder } = &mut self.started else { return Ok(()) };
        let Some(status) = child.try_wait()? else { return Ok(()) };
        let log = fs::read_to_string(folder.join(LOG)).unwrap_or_default();
        // Lines in stack traces begin with a tab.
        let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with('\t')).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        bail!("{name} ended at once ({status}); its last lines:\n{}", last.join("\n"))
    }
}

/// Returns the files and folders in a folder; none if it does not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}
