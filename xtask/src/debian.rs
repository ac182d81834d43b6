//! A Debian of its own: what people have who have nothing. Made of packages, so it needs no registry of
//! images.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    process::{succeed, target},
    tools::{fetched, on_path},
};

const RELEASE: &str = "bookworm";
/// Packages have their files in `/usr` alone.
const MERGED: &str = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr";
/// The folders in `/usr/share` that a trial does not need.
const LEFT_OUT: [&str; 3] = ["doc", "locale", "info"];
/// Runs the trial as the only process of a machine without a network: its ports are free, and what it starts
/// ends with it.
const ALONE: [&str; 7] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc"];
/// Makes the system the root of its own tree of mounts, as an engine for containers needs it. A changed root
/// alone would not be the root of a process that enters a container.
const ENTER: &str = "ip link set lo up; mount --rbind \"$0\" \"$0\"; cd \"$0\"; mount -t proc proc proc; mount -t sysfs sysfs sys; \
                     mount --rbind /sys/fs/cgroup sys/fs/cgroup; pivot_root . mnt; umount --lazy /mnt; exec sh -eu /trial/run";

/// Returns an archive of the least system that has a package manager, in the cache folder.
///
/// # Errors
/// Like [`archive`].
pub(crate) fn empty() -> Result<PathBuf> {
    with("empty", "apt")
}

/// Returns an archive of a system that has these packages as well, in the cache folder.
///
/// # Errors
/// Like [`archive`].
pub(crate) fn with(name: &str, packages: &str) -> Result<PathBuf> {
    archive(name, &["--variant=minbase", MERGED, &format!("--include=usr-is-merged,{packages}")])
}

/// Returns an archive of a Debian that mmdebstrap makes with these options, in the cache folder.
///
/// # Errors
/// Fails if it cannot be made, for which this process must be root.
pub(crate) fn archive(name: &str, options: &[&str]) -> Result<PathBuf> {
    let file = format!("{name}.tar");
    let is_whole = |folder: &Path| folder.join(&file).is_file();
    let folder = fetched(&format!("{RELEASE}-{name}"), is_whole, |folder| {
        install("mmdebstrap", "mmdebstrap")?;
        let mut make = Command::new("mmdebstrap");
        make.arg("--quiet").args(options);
        make.args(LEFT_OUT.map(|folder| format!("--dpkgopt=path-exclude=/usr/share/{folder}/*")));
        succeed(make.arg(RELEASE).arg(folder.join(&file)))
    });
    Ok(folder.context("a Debian is made by mmdebstrap, as root")?.join(file))
}

/// Runs a shell script as root of the Debian in this archive. Its `/trial` has these files and nothing else.
///
/// # Errors
/// Fails if the script does.
pub(crate) fn run(archive: &Path, script: &str, files: &[PathBuf]) -> Result<()> {
    let root = target().join("debian-root");
    remove(&root)?;
    let trial = root.join("trial");
    fs::create_dir_all(&trial)?;
    succeed(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&root))?;
    for file in files {
        let name = file.file_name().context("the file has a name")?;
        fs::copy(file, trial.join(name)).with_context(|| file.display().to_string())?;
    }
    fs::write(trial.join("run"), script)?;
    succeed(Command::new("unshare").args(ALONE).arg(ENTER).arg(&root))?;
    remove(&root)
}

/// Installs a Debian package unless its program is on the path. Nothing that the package brings is started.
pub(crate) fn install(program: &str, package: &str) -> Result<()> {
    if on_path(program).is_some() {
        return Ok(());
    }
    succeed(Command::new("apt-get").args(["update", "-qq"]))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends", package]);
    succeed(install.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1"))
}

fn remove(root: &Path) -> Result<()> {
    if root.exists() {
        fs::remove_dir_all(root).context("the former trial stays")?;
    }
    Ok(())
}
