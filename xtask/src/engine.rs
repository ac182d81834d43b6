//! Runs the virtual time engine, optimised.

use anyhow::Result;

use crate::process::{cargo, outlive_ctrl_c, succeed};

/// Builds the engine and runs `seeds` seeds, or only the given seed.
pub(crate) fn run(seeds: u64, seed: Option<u64>) -> Result<()> {
    outlive_ctrl_c(|| {})?;
    let mut command = cargo();
    command.args(["test", "--profile", "engine", "-p", "kith-cache", "--test", "engine", "--"]);
    command.args(["--nocapture", "--test-threads", "1", "cached_read_is_never_wrong_past_its_bound"]);
    command.env("KITH_SEEDS", seeds.to_string());
    if let Some(seed) = seed {
        command.env("KITH_SEED", seed.to_string());
    }
    succeed(&mut command)
}
