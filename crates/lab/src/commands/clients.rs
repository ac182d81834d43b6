use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;
use kith_lab::clients::{CLIENTS, Trial, TrialReport, table};
use kith_lab_servers::program::program;

use super::ensure_known;

/// How many violations of a client are printed in full.
const PRINTED_MAX: usize = 5;

#[derive(Args, Debug)]
pub(crate) struct ClientsArguments {
    /// This client alone (go, python, typescript, rust); may be given several times.
    #[arg(long, value_name = "CLIENT")]
    only: Vec<String>,
    /// How many messages each client sends, at least.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    messages: u64,
    /// The checkout with the clients, which are built there.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    checkout: PathBuf,
    /// The program of a node [default: `kith` in the folder of this program].
    #[arg(long)]
    kith: Option<PathBuf>,
}

impl ClientsArguments {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        ensure_known("client", &self.only, CLIENTS.map(|(name, _)| name))?;
        let (kith, checkout) = (program(self.kith)?, self.checkout);
        let trial = Trial { kith, checkout, messages: self.messages };
        let (mut reports, mut holds) = (Vec::new(), true);
        for (name, folder) in CLIENTS {
            if !self.only.is_empty() && !self.only.iter().any(|only| only == name) {
                continue;
            }
            match trial.run(folder).await {
                Ok(report) => {
                    print_findings(name, &report);
                    holds &= report.violations.is_empty();
                    reports.push((name.to_owned(), report));
                }
                Err(error) => {
                    println!("{name}: {error:#}");
                    holds = false;
                }
            }
        }
        println!("\n{}", table(&reports));
        Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn print_findings(name: &str, report: &TrialReport) {
    println!("{name}: {}", if report.violations.is_empty() { "holds" } else { "does not hold" });
    report.violations.iter().take(PRINTED_MAX).for_each(|violation| println!("  {violation}"));
    if let Some(error) = &report.last_error {
        println!("  the last call that failed: {error}");
    }
}
