//! The command of the laboratory.

mod commands;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use commands::{AlertsArguments, CheckArguments, DemoArguments, HuntArguments, MutantsArguments};

#[derive(Debug, Parser)]
#[command(name = "kith-lab", about = "Tries to make real clusters break what Kith promises")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Does to a cluster of real processes what a row of the table of faults says, and writes down what clients see.
    Hunt(HuntArguments),
    /// Runs clusters that lack one rule each; ends with code 1 when the checker does not notice one of them.
    Mutants(MutantsArguments),
    /// Shows that faults of real clusters set off the alerts that are published; ends with code 1 when one is not.
    Alerts(AlertsArguments),
    /// Judges a history and prints what it shows; ends with code 1 when a check does not hold.
    Check(CheckArguments),
    /// Shows a cluster at work: three nodes, each tier, writes that the others follow, Redis away, a node killed.
    Demo(DemoArguments),
}

/// Errors are printed in one line, whatever `RUST_BACKTRACE` says: they are about servers and arguments.
#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("kith-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Hunt(arguments) => arguments.run().await,
        Command::Mutants(arguments) => arguments.run().await,
        Command::Alerts(arguments) => arguments.run().await,
        Command::Check(arguments) => arguments.run(),
        Command::Demo(arguments) => arguments.run().await,
    }
}
