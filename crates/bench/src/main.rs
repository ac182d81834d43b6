//! The command that measures Kith.

mod commands;

use std::{net::SocketAddr, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use kith_bench::{
    echo,
    entry::{self, Kind},
    frames,
};

use commands::BenchArguments;

/// The node's allocator, so that both sides in a ratio allocate alike.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the ratios, prints them and writes target/bench/ratios.json.
#[derive(Debug, Parser)]
#[command(name = "kith-bench", about = "Measures what Kith costs over the parts that it is made of")]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    bench: BenchArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answers every call with what it was sent: the baseline of a node.
    #[command(hide = true)]
    EchoServer { listen: SocketAddr },
    /// Sends streams with the same messages, bare or behind a node's edge.
    #[command(hide = true)]
    FramesServer {
        listen: SocketAddr,
        #[arg(long)]
        edge: bool,
    },
    /// Prints the bytes that an entry of a full memory tier takes, and those that it counts.
    #[command(hide = true)]
    EntryBytes { kind: Kind, entries: i64 },
}

/// Errors are printed in one line, whatever `RUST_BACKTRACE` is: they concern servers and arguments.
#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("kith-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        None => arguments.bench.run().await,
        Some(Command::EchoServer { listen }) => echo::serve(listen).await.map(|()| ExitCode::SUCCESS),
        Some(Command::FramesServer { listen, edge }) => {
            frames::serve(listen, edge).await.map(|()| ExitCode::SUCCESS)
        }
        Some(Command::EntryBytes { kind, entries }) => {
            let bytes = entry::bytes_an_entry(kind, entries).await?;
            println!("{} {}", bytes.grown, bytes.counted);
            Ok(ExitCode::SUCCESS)
        }
    }
}
