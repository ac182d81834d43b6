//! The ratios.

use anyhow::Result;

use crate::{
    process::{cargo, outlive_ctrl_c, succeed},
    servers::Mongodb,
};

/// Builds the laboratory for release and runs its `bench` against a real MongoDB.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    outlive_ctrl_c(|| {})?;
    succeed(cargo().args(["build", "--release", "-p", "kith-server", "-p", "kith-lab"]))?;
    let mongodb = Mongodb::start()?;
    let mut command = cargo();
    command.args(["run", "--release", "-p", "kith-lab", "--", "bench"]).args(arguments);
    succeed(command.env("KITH_TEST_MONGODB", &mongodb.uri))
}
