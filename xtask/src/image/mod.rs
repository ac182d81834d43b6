//! Tries the image on a real engine: built from the archive, alone, and as a cluster by compose.

use std::process::Command;

use anyhow::Result;

use crate::{
    debian,
    process::{root, succeed, target},
    release,
    servers::{cassandra_program, docker_answers, mongod_program},
    tools,
};

/// The trial itself, on the engine that answers.
const TRIAL: &str = "xtask/src/image/trial.sh";
/// The script that starts an engine, fills it with images, and runs the trial on it.
const ENGINE: &str = "xtask/src/image/engine.sh";
/// Gives the engine a network and processes of its own, which end with the trial.
const ALONE: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
/// Options for the system in the place of the images of MongoDB, Redis and ScyllaDB.
const SERVERS: [&str; 2] = [
    "--variant=minbase",
    "--include=redis-server,openjdk-17-jre-headless,python3-pymongo,libcurl4,ca-certificates",
];
/// Options for the system in the place of busybox's image: the C library and its commands, without packages.
const BUSYBOX: [&str; 5] = [
    "--variant=extract",
    debian::MERGED,
    "--include=busybox",
    "--customize-hook=chroot \"$1\" /bin/busybox --install -s /bin",
    "--customize-hook=mkdir -p \"$1/tmp\" && chmod 1777 \"$1/tmp\"",
];

/// Builds the image and tries it; builds a release first if there is none. If no engine answers, it starts
/// Debian's engine, and makes the images that a registry would have from Debian's packages.
///
/// # Errors
/// Fails if the image is too large, or is or does something else than its documents say.
pub(crate) fn check() -> Result<()> {
    if !release::folder().exists() {
        release::build(None)?;
    }
    let mut trial = if docker_answers() { Command::new("sh") } else { own_engine()? };
    trial.args(["-eu", TRIAL]).env("FILES", release::folder()).env("COMPOSE", tools::compose()?);
    succeed(trial.current_dir(root()))
}

/// Installs the engine. Returns a command that starts it, and runs the command in its arguments there.
fn own_engine() -> Result<Command> {
    debian::install("dockerd", "docker.io")?;
    debian::install("iptables", "iptables")?;
    let mut engine = Command::new("unshare");
    engine.args(ALONE).args(["sh", "-eu", ENGINE, "sh"]).env("STATE", target().join("engine"));
    engine.env("BUSYBOX", debian::archive("busybox", &BUSYBOX)?);
    engine.env("SERVERS", debian::archive("servers", &SERVERS)?);
    engine.env("MONGOD", mongod_program()?).env("CASSANDRA", cassandra_program()?);
    Ok(engine)
}
