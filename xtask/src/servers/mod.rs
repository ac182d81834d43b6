//! Real servers for the tests: found, or started here and stopped at the end.

mod cassandra;
mod folder;
mod mongodb;
mod ports;
mod redis;
mod wire;

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Result, bail};

pub(crate) use cassandra::{Cassandra, program as cassandra_program};
pub(crate) use folder::for_tests as folder_for_tests;
pub(crate) use mongodb::{Mongodb, program as mongod_program};
pub(crate) use redis::{Redis, program as redis_program};

/// A server that tests may use. Dropping it stops what was started for it and removes its data.
#[derive(Debug)]
pub(crate) struct Running {
    /// How tests reach it.
    pub(crate) uri: String,
    started: Started,
}

/// What there is to stop.
#[derive(Debug)]
enum Started {
    /// A server that this program did not start.
    Nothing,
    /// A program with a data folder.
    Process { child: Child, folder: PathBuf },
    /// A container that Docker removes when it stops.
    Container(String),
}

impl Drop for Running {
    fn drop(&mut self) {
        // Failures cannot be reported from here.
        match &mut self.started {
            Started::Nothing => {}
            Started::Process { child, folder } => {
                child.kill().ok();
                child.wait().ok();
                std::fs::remove_dir_all(folder).ok();
            }
            Started::Container(id) => {
                let mut remove = Command::new("docker");
                remove.args(["rm", "--force", id]).stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
            }
        }
    }
}

fn docker_answers() -> bool {
    let info = Command::new("docker").arg("info").stdout(Stdio::null()).stderr(Stdio::null()).status();
    info.is_ok_and(|status| status.success())
}

fn in_docker(image: &str, port: u16, arguments: &[String]) -> Result<Started> {
    let mut run = Command::new("docker");
    run.args(["run", "--detach", "--rm", "--publish", &format!("127.0.0.1:{port}:{port}"), image]);
    let output = run.args(arguments).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("Docker did not start {image}");
    }
    Ok(Started::Container(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}
