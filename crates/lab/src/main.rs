//! The laboratory's command line.

mod commands;

use std::{net::SocketAddr, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use kith_lab::clients;

use commands::{
    AlertsArguments, CheckArguments, ClientsArguments, DemoArguments, HuntArguments, MutantsArguments,
};

#[derive(Debug, Parser)]
#[command(name = "kith-lab", about = "Tests the promises of Kith on real clusters under faults")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Causes the faults of a row in a cluster of real processes, records what clients see, and judges it.
    Hunt(HuntArguments),
    /// Runs clusters that lack a rule; ends with code 1 if the checker does not detect one of them.
    Mutants(MutantsArguments),
    /// Checks that faults of real clusters trigger the published alerts; ends with code 1 if a case fails.
    Alerts(AlertsArguments),
    /// Judges a history and prints the report; ends with code 1 if a check does not hold.
    Check(CheckArguments),
    /// Sends messages by the client of each language under cuts and kills of a cluster; ends with code 1 if
    /// one is lost, stored twice, out of order or not read on the other node at once.
    Clients(ClientsArguments),
    /// Reads users by a near cache until the standard input ends, and prints what it saw: a part of a test.
    #[command(hide = true)]
    NearReader {
        /// The address of a node.
        address: SocketAddr,
    },
    /// Demonstrates a cluster: three nodes, each tier, writes seen by other nodes, an outage of Redis, a
    /// killed node.
    Demo(DemoArguments),
}

/// Prints an error in one line, without a backtrace: errors are about servers and arguments.
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
        Command::Clients(arguments) => arguments.run().await,
        Command::NearReader { address } => clients::read_near(address).await.map(|()| ExitCode::SUCCESS),
        Command::Demo(arguments) => arguments.run().await,
    }
}
