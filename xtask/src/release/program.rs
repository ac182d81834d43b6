//! Builds the program so that it runs on old systems, and so that every build of a commit has the same bytes.

use std::{
    env::{self, consts::ARCH},
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::git;
use crate::{
    process::{cargo, succeed},
    tools,
};

/// The oldest glibc that the program runs on: Debian 10, Ubuntu 18.10 and RHEL 8 have it.
pub(super) const GLIBC: &str = "2.28";

/// Builds `source` below `target`. Returns the program.
///
/// # Errors
/// Fails if it does not build, or the tools that link for an old glibc cannot be fetched.
pub(super) fn build(source: &Path, target: &Path) -> Result<PathBuf> {
    let mut build = cargo();
    let (verb, triple, oldest) = if cfg!(target_os = "macos") {
        ("build", format!("{ARCH}-apple-darwin"), String::new())
    } else {
        let [zigbuild, zig] = tools::zigbuild()?;
        build.env("PATH", on_path_with(&zigbuild)?).env("CARGO_ZIGBUILD_ZIG_PATH", zig);
        ("zigbuild", format!("{ARCH}-unknown-linux-gnu"), format!(".{GLIBC}"))
    };
    build.arg(verb);
    build.args(["--profile", "dist", "--locked", "--package", "kith-cli", "--target"]);
    build.arg(format!("{triple}{oldest}")).current_dir(source).env("CARGO_TARGET_DIR", target);
    build.env("BUILD_COMMIT", git(source, "%h")?).env("BUILD_DATE", git(source, "%cs")?);
    build.env("CARGO_ENCODED_RUSTFLAGS", remapped(source, target)?.join("\x1f"));
    succeed(build.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("RUSTFLAGS"))?;
    Ok(target.join(triple).join("dist/kith"))
}

/// Returns the path on which cargo finds its commands, with the folder of this command.
fn on_path_with(command: &Path) -> Result<OsString> {
    let known = env::var_os("PATH").unwrap_or_default();
    let folder = command.parent().map(Path::to_owned);
    env::join_paths(folder.into_iter().chain(env::split_paths(&known))).context("PATH cannot be extended")
}

/// Returns compiler flags that replace this machine's paths, which panic messages would have.
fn remapped(source: &Path, target: &Path) -> Result<Vec<String>> {
    let mut places = vec![(source.to_owned(), "/kith"), (target.to_owned(), "/target")];
    // The folder of a registry is called after its address.
    let registries = cargo_home()?.join("registry/src");
    for registry in fs::read_dir(&registries).into_iter().flatten() {
        places.push((registry?.path(), "/crates"));
    }
    let flag = |(from, to): (PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
    Ok(places.into_iter().map(flag).collect())
}

fn cargo_home() -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    home.context("neither CARGO_HOME nor HOME is set")
}
