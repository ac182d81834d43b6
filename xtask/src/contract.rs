//! Checks the contract with buf: its form, and that clients built from the baseline still understand it.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::{
    process::{root, succeed},
    tools,
};

/// The contract that clients may use, as descriptors without comments.
const BASELINE: &str = "proto/baseline.binpb";

/// Fails if the contract does not have the form in `buf.yaml`, or breaks clients built from the baseline.
/// Later additions may still change.
pub(crate) fn check() -> Result<()> {
    let buf = tools::buf()?;
    succeed(program(&buf).arg("lint"))?;
    succeed(program(&buf).args(["breaking", "--against", BASELINE])).context(
        "the contract breaks clients of its baseline; where that is meant, `cargo xtask baseline` accepts it",
    )?;
    println!("contract: its form is right and it breaks no client of {BASELINE}");
    Ok(())
}

/// Makes the current contract the new baseline: at a release, and where a break is intended.
pub(crate) fn accept() -> Result<()> {
    let buf = tools::buf()?;
    succeed(program(&buf).arg("lint"))?;
    succeed(program(&buf).args(["build", "--exclude-source-info", "--output", BASELINE]))?;
    println!("{BASELINE}: written");
    Ok(())
}

fn program(buf: &Path) -> Command {
    let mut command = Command::new(buf);
    command.current_dir(root());
    command
}
