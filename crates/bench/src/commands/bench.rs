use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use kith_bench::{
    claims::Plan,
    run::{self, Verdict},
};

#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    #[command(flatten)]
    plan: Plan,
    /// End with code 1 when a row does not hold.
    #[arg(long)]
    check: bool,
}

impl BenchArguments {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        Ok(match run::run(&self.plan).await? {
            Verdict::Holds => ExitCode::SUCCESS,
            Verdict::Misses if !self.check => ExitCode::SUCCESS,
            Verdict::Incomplete if !self.plan.only.is_empty() => ExitCode::SUCCESS,
            Verdict::Misses | Verdict::Incomplete => ExitCode::FAILURE,
        })
    }
}
