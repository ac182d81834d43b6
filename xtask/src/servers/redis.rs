//! Starts Redis without persistence: one shared server, and the program for tests that kill servers and so
//! start their own.

use std::{
    env,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    path::PathBuf,
    process::{self, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{TestServer, as_process, docker_answers, in_docker, named, ports::free_ports};
use crate::{
    process::succeed,
    tools::{named_program, on_path},
};

pub(super) const ADDRESS: &str = "KITH_TEST_REDIS";
const IMAGE: &str = "redis:7";
const PROGRAM: &str = "KITH_TEST_REDIS_SERVER";
const PACKAGE: &str = "redis-server";
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Yields a Redis that answers: the server that `KITH_TEST_REDIS` names; else a container, if Docker answers;
/// else a server by [`program`].
///
/// # Errors
/// Fails if none of these is available, or it is not ready within half a minute.
pub(super) fn start() -> Result<TestServer> {
    if let Some(running) = named(ADDRESS)? {
        return Ok(running);
    }
    let [port] = free_ports()?;
    let arguments = ["--port", &port.to_string(), "--save", "", "--appendonly", "no"].map(str::to_owned);
    let started = if docker_answers() {
        let command = [IMAGE, PACKAGE].map(str::to_owned);
        in_docker(port, port, &[&command[..], &arguments].concat())?
    } else {
        let program = program()
            .with_context(|| format!("the tests need Redis: name one in {ADDRESS}, or start Docker"))?;
        let folder = env::temp_dir().join(format!("kith-redis-{}-{port}", process::id()));
        as_process(&folder, |folder| {
            let mut command = Command::new(program);
            command.args(arguments).args(["--bind", "127.0.0.1", "--dir"]).arg(folder);
            Ok(command)
        })?
    };
    let running = TestServer { uri: format!("redis://127.0.0.1:{port}"), started };
    running.once_ready("Redis", READY_WITHIN, || Ok(ping(port)? == *b"+PONG"))
}

/// Returns the program with which tests start their own servers, whatever the shared server runs in: the
/// program that `KITH_TEST_REDIS_SERVER` names, else the program on the path, installed from Debian's
/// packages if there is none. Tests find it under the same name.
///
/// # Errors
/// Fails if there is none and it cannot be installed.
pub(crate) fn program() -> Result<PathBuf> {
    named_program(PROGRAM).or_else(|| on_path(PACKAGE)).map_or_else(install, Ok).with_context(|| {
        format!(
            "tests that kill Redis need its program: name it in {PROGRAM}, or install the package {PACKAGE}"
        )
    })
}

fn install() -> Result<PathBuf> {
    succeed(Command::new("apt-get").args(["update", "-qq"]).stdout(Stdio::null()))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends", PACKAGE]).stdout(Stdio::null());
    // The package would start its own server; these tests start theirs.
    succeed(install.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1"))?;
    on_path(PACKAGE).context("the package holds no redis-server")
}

fn ping(port: u16) -> std::io::Result<[u8; 5]> {
    let mut stream = TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(READY_WITHIN))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
