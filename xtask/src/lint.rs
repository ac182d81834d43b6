//! Checks the code before its tests are worth running.

use std::{env, process::Command};

use anyhow::Result;

use crate::{
    contract, docs,
    process::{cargo, root, succeed},
    tools,
};

const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
/// The arguments for a build in which clippy is the workspace compiler: the tests use its output, too.
const CLIPPY_BUILDS: &[&str] = &["test", "--workspace", "--all-targets", "--no-run", "--quiet"];
/// Tests that run only when they are named, and do not belong to all targets: `cargo xtask nightly`.
const LONG: [&str; 3] = ["--workspace", "--test", "nightly"];
/// The variable that names the workspace compiler.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Runs every check; the first that fails ends it.
pub(crate) fn run() -> Result<()> {
    succeed(cargo().args(["fmt", "--all", "--", "--check"]))?;
    let is_compiler = env::var_os(WRAPPER).is_some_and(|wrapper| wrapper == "clippy-driver");
    if is_compiler {
        succeed(cargo().args(CLIPPY_BUILDS))?;
        succeed(cargo().arg("test").args(LONG).args(["--no-run", "--quiet"]))?;
    } else {
        succeed(cargo().args(CLIPPY))?;
        succeed(cargo().arg("clippy").args(LONG).args(["--", "-D", "warnings"]))?;
    }
    docs::check()?;
    contract::check()?;
    workflows()?;
    deny()?;
    println!("lint: all checks hold");
    Ok(())
}

/// Without shellcheck and pyflakes, which some machines have: every machine finds the same.
fn workflows() -> Result<()> {
    let mut actionlint = Command::new(tools::actionlint()?);
    succeed(actionlint.args(["-shellcheck=", "-pyflakes="]).current_dir(root()))
}

fn deny() -> Result<()> {
    let installed = cargo().args(["deny", "--version"]).output().is_ok_and(|output| output.status.success());
    if installed {
        return succeed(cargo().args(["deny", "check"]));
    }
    eprintln!("cargo-deny is not installed: licences, sources and advisories are not checked");
    Ok(())
}
