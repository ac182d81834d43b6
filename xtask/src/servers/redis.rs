//! Redis, without persistence: one server for the tests that share it, and the program for those that kill
//! servers and so start their own.

use std::{
    env,
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    path::PathBuf,
    process::{self, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{Running, Started, docker_answers, in_docker, ports::free_ports};
use crate::{process::succeed, tools::on_path};

const ADDRESS: &str = "KITH_TEST_REDIS";
const IMAGE: &str = "redis:7";
const PROGRAM: &str = "KITH_TEST_REDIS_SERVER";
const PACKAGE: &str = "redis-server";
const READY_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// The recipe.
#[derive(Debug)]
pub(crate) struct Redis;

impl Redis {
    /// Yields a Redis that answers: the one that `KITH_TEST_REDIS` names; else one in Docker, where an engine
    /// answers; else one by [`program`].
    ///
    /// # Errors
    /// When none of these can be had, or it is not ready within half a minute.
    pub(crate) fn start() -> Result<Running> {
        if let Some(uri) = env::var_os(ADDRESS).filter(|uri| !uri.is_empty()) {
            let uri = uri.into_string().ok().with_context(|| format!("{ADDRESS} is not Unicode"))?;
            return Ok(Running { uri, started: Started::Nothing });
        }
        let [port] = free_ports()?;
        let started =
            if docker_answers() { in_docker(IMAGE, port, &arguments(port))? } else { as_process(port)? };
        let running = Running { uri: format!("redis://127.0.0.1:{port}"), started };
        await_pong(port)?;
        Ok(running)
    }
}

/// The program with which tests start servers of their own, whatever the shared one runs in: the one that
/// `KITH_TEST_REDIS_SERVER` names, else the one on the path, installed from Debian's packages where there is
/// none. Tests find it under the same name.
///
/// # Errors
/// When there is none and it cannot be installed.
pub(crate) fn program() -> Result<PathBuf> {
    if let Some(given) = env::var_os(PROGRAM).filter(|given| !given.is_empty()) {
        return Ok(PathBuf::from(given));
    }
    on_path(PACKAGE).map_or_else(install, Ok).with_context(|| {
        format!(
            "tests that kill Redis need its program: name it in {PROGRAM}, or install the package {PACKAGE}"
        )
    })
}

fn arguments(port: u16) -> Vec<String> {
    let words = ["redis-server", "--port", &port.to_string(), "--save", "", "--appendonly", "no"];
    words.map(str::to_owned).to_vec()
}

fn as_process(port: u16) -> Result<Started> {
    let program =
        program().with_context(|| format!("the tests need Redis: name one in {ADDRESS}, or start Docker"))?;
    let folder = env::temp_dir().join(format!("kith-redis-{}-{port}", process::id()));
    fs::create_dir_all(&folder).context("no folder for the log of Redis")?;
    let log = File::create(folder.join("redis.log"))?;
    let mut command = Command::new(program);
    command.args(&arguments(port)[1..]).args(["--bind", "127.0.0.1", "--dir"]).arg(&folder);
    command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
    match command.spawn() {
        Ok(child) => Ok(Started::Process { child, folder }),
        Err(error) => {
            fs::remove_dir_all(&folder).ok();
            Err(error).context("redis-server does not start")
        }
    }
}

fn install() -> Result<PathBuf> {
    succeed(Command::new("apt-get").args(["update", "-qq"]).stdout(Stdio::null()))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends", PACKAGE]).stdout(Stdio::null());
    // Its own server would be started by the package; these tests start theirs.
    succeed(install.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1"))?;
    on_path(PACKAGE).context("the package holds no redis-server")
}

fn await_pong(port: u16) -> Result<()> {
    let give_up = Instant::now() + READY_WITHIN;
    while Instant::now() < give_up {
        if ping(port).is_ok_and(|answer| answer == *b"+PONG") {
            return Ok(());
        }
        thread::sleep(POLL);
    }
    bail!("Redis does not answer after {} seconds", READY_WITHIN.as_secs())
}

fn ping(port: u16) -> std::io::Result<[u8; 5]> {
    let mut stream = TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(READY_WITHIN))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
