//! Builds the image of a node from the archive of a release, and tries it with a cluster by compose.

mod cluster;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

pub(crate) use cluster::check;

use crate::{
    process::{root, succeed},
    release,
};

/// The image's name in `docker-compose.yml`.
const NAME: &str = "kith:local";
/// Prints how many bytes the image named `$0` has when it is sent to another machine.
const COMPRESSED: &str = "docker save \"$0\" | gzip -9 | wc -c";

/// Builds the archive, then its image with the engine of this machine. A given program is packed as it is.
///
/// # Errors
/// Fails if the archive cannot be built, or no engine answers.
pub(crate) fn build(given: Option<&Path>) -> Result<()> {
    release::build(given)?;
    let revision = format!("REVISION={}", release::git(&root(), "%h")?);
    let mut build = Command::new("docker");
    build.args(["build", "--tag", NAME, "--build-arg", &revision, "--file"]);
    build.arg(root().join("Dockerfile")).arg(release::folder()).env("DOCKER_BUILDKIT", "1");
    succeed(&mut build).context("an image is built by Docker, whose engine has to run")?;
    let size = Command::new("sh").args(["-c", COMPRESSED, NAME]).stderr(Stdio::inherit()).output()?;
    ensure!(size.status.success(), "the size of {NAME} is unknown");
    println!("image: {NAME}, {} bytes compressed", String::from_utf8_lossy(&size.stdout).trim());
    Ok(())
}
