//! The development tool of Kith.

mod commands;

use std::{net::SocketAddr, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use kith_lab::{
    echo,
    entry::{self, Kind},
    frames,
};

use commands::{
    AlertsArguments, BenchArguments, CheckArguments, CompareArguments, DemoArguments, HuntArguments,
    MutantsArguments, NumbersArguments,
};

/// The one of the node, so that both sides of a ratio allocate alike.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "kith-lab", about = "Measures what Kith costs over the parts that it is made of")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the ratios, prints them and writes target/bench/ratios.json.
    Bench(BenchArguments),
    /// Does to a cluster of real processes what a row of the table of faults says, and writes down what clients see.
    Hunt(HuntArguments),
    /// Runs clusters that lack one rule each; ends with code 1 when the checker does not notice one of them.
    Mutants(MutantsArguments),
    /// Shows that faults of real clusters set off the alerts that are published; ends with code 1 when one is not.
    Alerts(AlertsArguments),
    /// Judges a history and prints what it shows; ends with code 1 when a check does not hold.
    Check(CheckArguments),
    /// Runs Kith's cache beside other schemes under the same faults, prints what each met, and writes it down.
    Compare(CompareArguments),
    /// Runs Kith's numbers of sequences beside a published allocator under the same faults, and prints what each gave out twice.
    Numbers(NumbersArguments),
    /// Shows a cluster at work: three nodes, each tier, writes that the others follow, Redis away, a node killed.
    Demo(DemoArguments),
    /// Answers every call with what it was sent: the baseline of a node.
    #[command(hide = true)]
    EchoServer {
        listen: SocketAddr,
        /// Takes calls with this key alone.
        #[arg(long)]
        key: Option<String>,
    },
    /// Sends streams of the same messages, bare or behind the edge of a node.
    #[command(hide = true)]
    FramesServer {
        listen: SocketAddr,
        #[arg(long)]
        edge: bool,
    },
    /// Prints the bytes that an entry of a full memory tier takes.
    #[command(hide = true)]
    EntryBytes { kind: Kind, entries: i64 },
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
        Command::Bench(arguments) => arguments.run().await,
        Command::Hunt(arguments) => arguments.run().await,
        Command::Mutants(arguments) => arguments.run().await,
        Command::Alerts(arguments) => arguments.run().await,
        Command::Check(arguments) => arguments.run(),
        Command::Compare(arguments) => arguments.run().await,
        Command::Numbers(arguments) => arguments.run().await,
        Command::Demo(arguments) => arguments.run().await,
        Command::EchoServer { listen, key } => {
            echo::serve(listen, key.as_deref()).await.map(|()| ExitCode::SUCCESS)
        }
        Command::FramesServer { listen, edge } => {
            frames::serve(listen, edge).await.map(|()| ExitCode::SUCCESS)
        }
        Command::EntryBytes { kind, entries } => {
            println!("{}", entry::bytes_an_entry(kind, entries).await?);
            Ok(ExitCode::SUCCESS)
        }
    }
}
