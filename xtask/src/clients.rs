//! Tests of the clients in other languages, and of the samples that use them.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::{
    process::{cargo, root, succeed, target},
    tools,
};

/// Each has a `test.sh`, which installs what it needs below `target/` and fails where a tool is missing. A
/// sample is tested after its client.
const FOLDERS: [&str; 6] = [
    "clients/go",
    "clients/python",
    "examples/chat-backend-python",
    "examples/message-search",
    "examples/moderation-bot",
    "clients/typescript",
];

/// Runs every folder's `test.sh` against a node and the node of the script, which it builds, or only those of
/// folders whose name contains `only`. Returns the folders with whether their tests passed.
///
/// # Errors
/// If the programs cannot be built, or no folder has such a name.
pub(crate) fn run(only: Option<&str>) -> Result<Vec<(&'static str, bool)>> {
    let folders: Vec<&str> =
        FOLDERS.into_iter().filter(|folder| only.is_none_or(|only| folder.contains(only))).collect();
    ensure!(!folders.is_empty(), "no folder has such a name; there are: {}", FOLDERS.join(", "));
    // As for the other tests, which have built these programs: `cargo build` would build all with other
    // features.
    let with_programs = ["--test", "processes", "--test", "conformance"];
    succeed(cargo().args(["test", "--quiet", "--workspace", "--no-run"]).args(with_programs))?;
    let buf = tools::buf()?;
    Ok(folders.into_iter().map(|folder| (folder, test(&root().join(folder), &buf).is_ok())).collect())
}

/// Like [`run`], but fails if a folder's tests fail.
pub(crate) fn check(only: Option<&str>) -> Result<()> {
    let failed: Vec<&str> =
        run(only)?.into_iter().filter(|(_, passed)| !passed).map(|(folder, _)| folder).collect();
    ensure!(failed.is_empty(), "tests failed in {}", failed.join(", "));
    Ok(())
}

fn test(folder: &Path, buf: &Path) -> Result<()> {
    println!("     Running {}", folder.display());
    let programs = target().join("debug");
    let mut command = Command::new("bash");
    command.arg("test.sh").current_dir(folder);
    command
        .env("KITH_TEST_BUF", buf)
        .env("KITH", programs.join("kith"))
        .env("KITH_SCRIPT", programs.join("kith-script"));
    succeed(&mut command).with_context(|| format!("{}", folder.display()))
}
