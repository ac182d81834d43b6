//! What must hold of the code before its tests are worth running.

use anyhow::Result;

use crate::{
    docs,
    process::{cargo, succeed},
};

const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];

/// Runs every check; the first that fails ends it.
pub(crate) fn run() -> Result<()> {
    succeed(cargo().args(["fmt", "--all", "--", "--check"]))?;
    succeed(cargo().args(CLIPPY))?;
    docs::check()?;
    deny()?;
    println!("lint: all checks hold");
    Ok(())
}

fn deny() -> Result<()> {
    let installed = cargo().args(["deny", "--version"]).output().is_ok_and(|output| output.status.success());
    if installed {
        return succeed(cargo().args(["deny", "check"]));
    }
    eprintln!("cargo-deny is not installed: licences, sources and advisories are not checked");
    Ok(())
}
