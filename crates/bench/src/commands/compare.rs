use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;
use kith_bench::comparison::{self, Sizes};

#[derive(Args, Debug)]
pub(crate) struct CompareArguments {
    /// What is written when and where, and what happens at random, follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show that it works, with too little of everything to compare.
    #[arg(long)]
    quick: bool,
    /// Where comparison.json and comparison.html go.
    #[arg(long, value_name = "FOLDER", default_value = "target/compare")]
    out: PathBuf,
}

impl CompareArguments {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let sizes = if self.quick { Sizes::QUICK } else { Sizes::FULL };
        let print_run = |run: &comparison::Run| eprintln!("{}: {}", run.fault.name(), run.scheme.name());
        let comparison = comparison::compare(&sizes, self.seed, print_run).await?;
        comparison.write(&self.out)?;
        println!("{}", comparison::table(&comparison.runs));
        let (beyond, ever) = comparison.broken_promises();
        println!("Kith: {beyond} reads older than it promises, {ever} records stale for ever");
        Ok(if beyond == 0 && ever == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
