//! Cassandra, for the relations: one node whose data go with it.

mod flags;
mod program;

use std::{
    env,
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

pub(crate) use self::program::program;
use super::{Running, Started, docker_answers, ports::free_ports};
use crate::{process::succeed, tools::cache_folder};

const ADDRESS: &str = "KITH_TEST_CQL";
const IMAGE: &str = "cassandra:5";
const VERSION: &str = "cassandra-5.0.5";
const POM: &str = include_str!("pom.xml");
const CONFIGURATION: &str = include_str!("cassandra.yaml");
const LOGGING: &str = include_str!("logback.xml");
const LOG: &str = "cassandra.log";
const READY_WITHIN: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(200);
/// Lines of its log that are printed if it ends at once.
const WORDS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(5);
/// OPTIONS of the protocol, version 4, without a body; the answer is SUPPORTED.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
const SUPPORTED: u8 = 6;

/// The recipe.
#[derive(Debug)]
pub(crate) struct Cassandra;

impl Cassandra {
    /// Yields a Cassandra that answers, as `host:port`: the one that `KITH_TEST_CQL` names; else one in Docker, where an
    /// engine answers; else one out of Maven's jars, which are kept in the cache folder between runs, on Java 17.
    /// A program has its data in a folder of its own under `folder`.
    ///
    /// # Errors
    /// When none of the three can be had, or it is not ready within three minutes.
    pub(crate) fn start(folder: &Path) -> Result<Running> {
        if let Some(uri) = env::var_os(ADDRESS).filter(|uri| !uri.is_empty()) {
            let uri = uri.into_string().ok().with_context(|| format!("{ADDRESS} is not Unicode"))?;
            return Ok(Running { uri, started: Started::Nothing });
        }
        let ports: [u16; 3] = free_ports()?;
        let port = ports[0];
        let started = if docker_answers() { in_docker(port)? } else { as_process(ports, folder)? };
        let mut running = Running { uri: format!("127.0.0.1:{port}"), started };
        await_answer(port, &mut running.started)?;
        Ok(running)
    }

    /// The same on a thread of its own: it takes much longer than the other servers.
    pub(crate) fn start_aside(folder: &Path) -> JoinHandle<Result<Running>> {
        let folder = folder.to_owned();
        thread::spawn(move || Self::start(&folder))
    }
}

/// The image listens on its own port, whatever arguments it is given.
fn in_docker(port: u16) -> Result<Started> {
    let mut run = Command::new("docker");
    run.args(["run", "--detach", "--rm", "--publish", &format!("127.0.0.1:{port}:9042")]);
    run.args(["--env", "MAX_HEAP_SIZE=1g", "--env", "HEAP_NEWSIZE=256m", IMAGE]);
    let output = run.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("Docker did not start {IMAGE}");
    }
    Ok(Started::Container(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}

/// Its ports are those for clients, for other nodes and for its management.
fn as_process(ports: [u16; 3], folder: &Path) -> Result<Started> {
    let jars = jars().with_context(|| {
        format!("the tests need Cassandra: name one in {ADDRESS}, start Docker, or install Maven and Java 17")
    })?;
    let folder = folder.join(format!("kith-cassandra-{}-{}", process::id(), ports[0]));
    let started = start_in(&folder, &jars, ports);
    if started.is_err() {
        fs::remove_dir_all(&folder).ok();
    }
    started
}

fn start_in(folder: &Path, jars: &Path, [port, storage, jmx]: [u16; 3]) -> Result<Started> {
    fs::create_dir_all(folder).context("no folder for the data of Cassandra")?;
    let data = folder.display().to_string();
    let filled = CONFIGURATION.replace("@DATA@", &data).replace("@PORT@", &port.to_string());
    let filled = filled.replace("@STORAGE_PORT@", &storage.to_string());
    fs::write(folder.join("cassandra.yaml"), filled)?;
    fs::write(folder.join("logback.xml"), LOGGING)?;
    let log = File::create(folder.join(LOG))?;
    let mut command = Command::new("java");
    command.args(flags::UNHARMED.map(|property| format!("-D{property}")));
    command.args(arguments(&data, jars, &jmx.to_string())?);
    command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
    let child = command.spawn().context("Java does not start")?;
    Ok(Started::Process { child, folder: folder.to_owned() })
}

/// Arguments of Java.
fn arguments(data: &str, jars: &Path, jmx: &str) -> Result<Vec<String>> {
    let agent = files(jars).into_iter().find(|jar| is_named(jar, "jamm-"));
    let agent = agent.context("the jars of Cassandra lack its agent")?;
    let mut words = vec!["-Xms512m".to_owned(), "-Xmx1536m".to_owned(), "-XX:+UseSerialGC".to_owned()];
    words.push(format!("-javaagent:{}", agent.display()));
    words.push(format!("-Dcassandra.config=file://{data}/cassandra.yaml"));
    words.push(format!("-Dcassandra.storagedir={data}"));
    words.push(format!("-Dlogback.configurationFile={data}/logback.xml"));
    words.push(format!("-Dcassandra.jmx.local.port={jmx}"));
    words.extend(flags::PROPERTIES.map(|property| format!("-D{property}")));
    words.extend(flags::EXPORTS.map(|package| format!("--add-exports={package}=ALL-UNNAMED")));
    words.extend(flags::OPENS.map(|package| format!("--add-opens={package}=ALL-UNNAMED")));
    words.push("-cp".to_owned());
    words.push(format!("{}/*", jars.display()));
    words.push("org.apache.cassandra.service.CassandraDaemon".to_owned());
    Ok(words)
}

/// The jars in the cache folder, put there first if they are not.
fn jars() -> Result<PathBuf> {
    let cached = cache_folder()?.join(VERSION);
    if files(&cached).iter().any(|jar| is_named(jar, "cassandra-all-")) {
        return Ok(cached);
    }
    let partial = cached.with_extension(format!("partial-{}", process::id()));
    let fetched = fetch(&partial);
    if fetched.is_ok() {
        // Another run may have been faster; either folder holds the same.
        fs::rename(partial.join("jars"), &cached).ok();
    }
    fs::remove_dir_all(&partial).ok();
    fetched?;
    Ok(cached)
}

fn fetch(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("pom.xml"), POM)?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]);
    succeed(maven.current_dir(folder))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

fn is_named(file: &Path, beginning: &str) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning))
}

fn await_answer(port: u16, started: &mut Started) -> Result<()> {
    let give_up = Instant::now() + READY_WITHIN;
    while Instant::now() < give_up {
        ensure_alive(started)?;
        if asked(port).is_ok_and(|answer| answer == SUPPORTED) {
            return Ok(());
        }
        thread::sleep(POLL);
    }
    bail!("Cassandra does not answer after {} seconds", READY_WITHIN.as_secs())
}

/// The kind of what is answered to OPTIONS.
fn asked(port: u16) -> std::io::Result<u8> {
    let mut stream = TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&OPTIONS)?;
    let mut header = [0; 9];
    stream.read_exact(&mut header)?;
    Ok(header[4])
}

fn ensure_alive(started: &mut Started) -> Result<()> {
    let Started::Process { child, folder } = started else {
        return Ok(());
    };
    let Some(status) = child.try_wait()? else {
        return Ok(());
    };
    let log = fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    bail!("Cassandra ended at once ({status}); its words:\n{}", words(&log).join("\n"))
}

/// The last lines of a log, without the places in its code.
fn words(log: &str) -> Vec<&str> {
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with('\t')).collect();
    lines[lines.len().saturating_sub(WORDS)..].to_vec()
}
