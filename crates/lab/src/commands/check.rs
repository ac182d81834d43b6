use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use clap::Args;
use kith_lab::{
    checker::{self, Bounds, FaultEffect},
    faults, history,
};

#[derive(Args, Debug)]
pub(crate) struct CheckArguments {
    /// The history: a line of JSON for each event.
    file: PathBuf,
    /// How old a cached answer may be while nothing is wrong.
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    healthy_ms: u64,
    /// How old it may be while a fault is on that is no row of the table of faults; those have their own
    /// bounds.
    #[arg(long, value_name = "MS", default_value_t = 11_000)]
    faulty_ms: u64,
    /// How long such a fault may have an effect after its end.
    #[arg(long, value_name = "MS", default_value_t = 11_000)]
    heals_ms: u64,
}

impl CheckArguments {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let bound = Duration::from_millis(self.faulty_ms);
        let faulty = FaultEffect { bound, heals: Duration::from_millis(self.heals_ms) };
        let healthy = Duration::from_millis(self.healthy_ms);
        let bounds = Bounds { healthy, faulty, ..faults::bounds() };
        let file = self.file.display();
        let events = history::read(&self.file).with_context(|| format!("{file} is no history"))?;
        let report = checker::check(&events, &bounds);
        print!("{report}");
        Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
