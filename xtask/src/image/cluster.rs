//! Tries the image as an operator would: a node alone, then the cluster of `docker-compose.yml`, by an engine
//! that runs in a Debian and a network of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{
    debian,
    process::{root, succeed, target},
    release, servers,
    tools::{self, cache_folder},
};

/// The most bytes of the image when it is compressed.
const IMAGE_MAX: u64 = 40_000_000;
const TRIAL: &str = include_str!("cluster.sh");
/// The parts of the repository that the trial has.
const REPOSITORY: [&str; 4] =
    ["Dockerfile", "docker-compose.yml", "deploy/compose", "xtask/src/image/servers"];
/// The packages of the engine, and those that the servers of `docker-compose.yml` need.
const ENGINE: &str = "docker.io,iptables,iproute2";
const SERVERS: &str = "redis-server,openjdk-17-jre-headless,libcurl4";
/// The packages in the image `cc` of distroless, which replace it.
const BASE: [&str; 2] = [
    "--variant=extract",
    "--include=base-files,ca-certificates,libc6,libgcc-s1,libgomp1,libssl3,libstdc++6,netbase,tzdata",
];

/// Builds the archive, then its image, and runs the cluster. A given program is packed as it is. No image of
/// a registry is used: Debian's packages and the servers of the tests replace them.
///
/// # Errors
/// Fails if the archive cannot be built or a check fails. Needs root, and a kernel that lets an engine run.
pub(crate) fn check(given: Option<&Path>) -> Result<()> {
    release::build(given)?;
    let engine = debian::with("engine", ENGINE)?;
    let mut files =
        vec![debian::empty()?, debian::with("servers", SERVERS)?, debian::archive("base", &BASE)?];
    files.extend([tools::compose()?, servers::mongod_program()?, programs()?, repository()?]);
    files.push(release::archive()?);
    // A given program may be from a faster build, which is larger.
    let most = if given.is_some() { IMAGE_MAX * 10 } else { IMAGE_MAX };
    let script = format!("CACHE='{}' BYTES_MAX={most}\n{TRIAL}", cache_folder()?.display());
    debian::run(&engine, &script, &files)
}

/// Packs the servers that have many files, with their paths on this machine: a program of Cassandra names
/// them.
fn programs() -> Result<PathBuf> {
    let cassandra = servers::cassandra_program()?;
    let folders =
        [tools::mongosh()?, servers::cassandra_jars()?, cassandra.parent().unwrap_or(&cassandra).to_owned()];
    let file = target().join("programs.tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(&file).args(["-C", "/"]);
    succeed(tar.args(folders.iter().map(|folder| folder.strip_prefix("/").unwrap_or(folder))))?;
    Ok(file)
}

fn repository() -> Result<PathBuf> {
    let file = target().join("repository.tar");
    fs::create_dir_all(target())?;
    succeed(Command::new("tar").arg("-cf").arg(&file).arg("-C").arg(root()).args(REPOSITORY))?;
    Ok(file)
}
