//! Programs that the tests call.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::process::succeed;

const GRPCURL: &str = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4";

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
