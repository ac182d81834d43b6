//! The subcommands: what each is told, and what it does then.

mod bench;
mod check;
mod compare;
mod demo;
mod hunt;
mod mutants;

use std::path::PathBuf;

use anyhow::{Context as _, Result};

pub(crate) use self::{
    bench::BenchArguments, check::CheckArguments, compare::CompareArguments, demo::DemoArguments,
    hunt::HuntArguments, mutants::MutantsArguments,
};

/// The program of a node, if it is not said which.
fn beside() -> Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this program is not known")?;
    Ok(own.with_file_name("kith"))
}
