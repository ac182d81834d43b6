use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use kith_bench::comparison::{NumberRun, NumberScheme, NumberSizes, compare_numbers, number_table};

#[derive(Args, Debug)]
pub(crate) struct NumbersArguments {
    /// Show that it works, with too little of everything to compare.
    #[arg(long)]
    quick: bool,
}

impl NumbersArguments {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let sizes = if self.quick { NumberSizes::QUICK } else { NumberSizes::FULL };
        let report = |run: &NumberRun| eprintln!("{}: {}", run.fault.name(), run.scheme.name());
        let runs = compare_numbers(&sizes, report).await?;
        println!("{}", number_table(&runs));
        let twice: usize =
            runs.iter().filter(|run| run.scheme == NumberScheme::Kith).map(|run| run.twice).sum();
        println!("Kith: {twice} numbers given out twice");
        Ok(if twice == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
