//! The ratios.

use std::{env, path::PathBuf, process::Command};

use anyhow::Result;

use crate::{
    process::{cargo, outlive_ctrl_c, root, succeed},
    servers::{Mongodb, Redis},
};

/// Builds the laboratory for release and runs its `bench` against a real MongoDB and a real Redis.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    outlive_ctrl_c(|| {})?;
    succeed(cargo().args(["build", "--release", "-p", "kith-server", "-p", "kith-lab"]))?;
    let (mongodb, redis) = (Mongodb::start()?, Redis::start()?);
    // Not by `cargo run`, which would build the server again with other features.
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut command = Command::new(target.join("release/kith-lab"));
    command.arg("bench").args(arguments).current_dir(root());
    succeed(command.env("KITH_TEST_MONGODB", &mongodb.uri).env("KITH_TEST_REDIS", &redis.uri))
}
