//! Programs that the tests call.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

use crate::process::succeed;

const GRPCURL: &str = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4";
/// Shipped as a program within a package of npm.
const BUF: &str = "@bufbuild/buf@1.75.0";
const PROMTOOL: &str = "KITH_TEST_PROMTOOL";
/// Debian's package that holds promtool.
const PROMETHEUS: &str = "prometheus";

/// grpcurl for the test of the README's tour: `KITH_TEST_GRPCURL`, else the one on the path, else one
/// built with Go into the cache folder.
pub(crate) fn grpcurl() -> Result<PathBuf> {
    if let Some(given) = env::var_os("KITH_TEST_GRPCURL") {
        return Ok(PathBuf::from(given));
    }
    let cached = cache_folder()?.join("bin").join("grpcurl");
    let known = on_path("grpcurl").or_else(|| cached.is_file().then(|| cached.clone()));
    if let Some(known) = known {
        return Ok(known);
    }
    let folder = cached.parent().unwrap_or(&cached);
    install(folder).context(
        "the tour needs grpcurl: install it, name it in KITH_TEST_GRPCURL, or install Go so that it can be built",
    )?;
    Ok(cached)
}

/// buf, which checks the contract: `KITH_TEST_BUF`, else the one on the path, else that of its npm package, which is put into the
/// cache folder.
///
/// # Errors
/// When there is none and the package cannot be had.
pub(crate) fn buf() -> Result<PathBuf> {
    if let Some(given) = env::var_os("KITH_TEST_BUF").filter(|given| !given.is_empty()) {
        return Ok(PathBuf::from(given));
    }
    // Of this version: another one brings other rules.
    let folder = cache_folder()?.join(BUF.replace(['@', '/'], "-"));
    let cached = folder.join("node_modules").join(".bin").join("buf");
    let known = on_path("buf").or_else(|| cached.is_file().then(|| cached.clone()));
    if let Some(known) = known {
        return Ok(known);
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-save", "--ignore-scripts", BUF, "--prefix"]).arg(&folder);
    std::fs::create_dir_all(&folder)
        .map_err(Into::into)
        .and_then(|()| succeed(&mut npm))
        .context("the contract is checked by buf: install it, name it in KITH_TEST_BUF, or install npm")?;
    Ok(cached)
}

/// promtool for the tests of the alerts: the one that `KITH_TEST_PROMTOOL` names, else the one on the path, else that of
/// Debian's package of Prometheus, which is unpacked into the cache folder and not installed: nothing is started.
///
/// # Errors
/// When there is none and the package cannot be had.
pub(crate) fn promtool() -> Result<PathBuf> {
    if let Some(given) = env::var_os(PROMTOOL).filter(|given| !given.is_empty()) {
        return Ok(PathBuf::from(given));
    }
    let unpacked = cache_folder()?.join(PROMETHEUS);
    let cached = unpacked.join("usr").join("bin").join("promtool");
    let known = on_path("promtool").or_else(|| cached.is_file().then(|| cached.clone()));
    if let Some(known) = known {
        return Ok(known);
    }
    unpack(&unpacked).with_context(|| {
        format!(
            "the alerts are tested by promtool: name it in {PROMTOOL}, or install the package {PROMETHEUS}"
        )
    })?;
    Ok(cached)
}

/// Puts what the package holds into this folder.
fn unpack(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    succeed(Command::new("apt-get").args(["update", "-qq"]).stdout(Stdio::null()))?;
    let mut download = Command::new("apt-get");
    succeed(download.args(["download", "-qq", PROMETHEUS]).current_dir(folder))?;
    let mut files = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let package = files.find(|file| file.extension().is_some_and(|end| end == "deb"));
    let package = package.context("apt-get has downloaded nothing")?;
    succeed(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(folder))?;
    std::fs::remove_file(package).context("the package stays where it was unpacked")
}

fn install(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    succeed(Command::new("go").args(["install", GRPCURL]).env("GOBIN", folder))
}

/// The program of this name on the path.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Where things that take long to get are kept between runs.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let folder = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    Ok(folder.context("neither XDG_CACHE_HOME nor HOME is set")?.join("kith-servers"))
}
