//! Starts Cassandra for the relations: one node whose data are removed with it.

mod flags;
mod program;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    path::{Path, PathBuf},
    process::{self, Command},
    time::Duration,
};

use anyhow::{Context as _, Result};

pub(crate) use self::program::program;
use super::{TestServer, as_process, docker_answers, files, in_docker, named, ports::free_ports};
use crate::{process::succeed, tools::fetched};

pub(super) const ADDRESS: &str = "KITH_TEST_CQL";
const IMAGE: &str = "cassandra:5";
const VERSION: &str = "cassandra-5.0.5";
const POM: &str = include_str!("pom.xml");
const CONFIGURATION: &str = include_str!("cassandra.yaml");
const LOGGING: &str = include_str!("logback.xml");
const READY_WITHIN: Duration = Duration::from_secs(180);
const PATIENCE: Duration = Duration::from_secs(5);
/// The port in the image, whatever its arguments are.
const IMAGE_PORT: u16 = 9_042;
/// The OPTIONS request in protocol version 4, without a body; the answer is SUPPORTED.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
const SUPPORTED: u8 = 6;

/// Yields a Cassandra that answers, as `host:port`: the server that `KITH_TEST_CQL` names; else a container,
/// if Docker answers; else a program from Maven's jars, which are kept in the cache folder between runs, on
/// Java 17. A program has its data in its own folder under `folder`.
///
/// # Errors
/// Fails if none of the three is available, or it is not ready within three minutes.
pub(crate) fn start(folder: &Path) -> Result<TestServer> {
    if let Some(running) = named(ADDRESS)? {
        return Ok(running);
    }
    let ports: [u16; 3] = free_ports()?;
    let port = ports[0];
    let started = if docker_answers() {
        let words = ["--env", "MAX_HEAP_SIZE=1g", "--env", "HEAP_NEWSIZE=256m", IMAGE];
        in_docker(port, IMAGE_PORT, &words.map(str::to_owned))?
    } else {
        let jars = jars().with_context(|| {
            format!(
                "the tests need Cassandra: name one in {ADDRESS}, start Docker, or install Maven and Java 17"
            )
        })?;
        let folder = folder.join(format!("kith-cassandra-{}-{port}", process::id()));
        as_process(&folder, |folder| java(folder, &jars, ports))?
    };
    let running = TestServer { uri: format!("127.0.0.1:{port}"), started };
    running.once_ready("Cassandra", READY_WITHIN, || Ok(asked(port)? == SUPPORTED))
}

/// Fills the folder and starts Java there. The ports are for clients, for other nodes and for its management.
fn java(folder: &Path, jars: &Path, [port, storage, jmx]: [u16; 3]) -> Result<Command> {
    let data = folder.display().to_string();
    let filled = CONFIGURATION.replace("@DATA@", &data).replace("@PORT@", &port.to_string());
    let filled = filled.replace("@STORAGE_PORT@", &storage.to_string());
    fs::write(folder.join("cassandra.yaml"), filled)?;
    fs::write(folder.join("logback.xml"), LOGGING)?;
    let mut command = Command::new("java");
    command.args(flags::UNHARMED.map(|property| format!("-D{property}")));
    command.args(arguments(&data, jars, &jmx.to_string())?);
    Ok(command)
}

/// Returns the arguments for Java.
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

/// Returns the jars in the cache folder; puts them there first if they are missing.
pub(crate) fn jars() -> Result<PathBuf> {
    let has_jars = |folder: &Path| files(folder).iter().any(|jar| is_named(jar, "cassandra-all-"));
    fetched(VERSION, has_jars, |folder| {
        let pom = folder.join("pom.xml");
        fs::write(&pom, POM)?;
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=."]);
        succeed(maven.current_dir(folder))?;
        fs::remove_file(pom).context("the description of the jars stays")
    })
}

fn is_named(file: &Path, beginning: &str) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning))
}

/// Sends OPTIONS and returns the answer's kind.
fn asked(port: u16) -> std::io::Result<u8> {
    let mut stream = TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&OPTIONS)?;
    let mut header = [0; 9];
    stream.read_exact(&mut header)?;
    Ok(header[4])
}
