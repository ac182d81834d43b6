//! The development tool of Kith.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};
use kith_lab::{
    bench::{self, Plan, Verdict},
    echo,
    entry::{self, Kind},
    peers::apart,
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
    /// Answers every call with what it was sent: the baseline of a node.
    #[command(hide = true)]
    EchoServer { listen: SocketAddr },
    /// A node over this Redis and this store that reads keys below a number all the time.
    #[command(hide = true)]
    Peer { redis: SocketAddr, store: SocketAddr, keys: u64 },
    /// Prints the bytes that an entry of a full memory tier takes.
    #[command(hide = true)]
    EntryBytes { kind: Kind, entries: i64 },
}

#[derive(Args, Debug)]
struct BenchArguments {
    /// Run this row alone; may be given several times.
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// Rounds of each row.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Show that the rows work, with too little of everything to measure.
    #[arg(long)]
    quick: bool,
    /// End with code 1 when a row does not hold.
    #[arg(long)]
    check: bool,
    /// A MongoDB replica set that may be filled; without it, its rows are not run.
    #[arg(long, env = "KITH_TEST_MONGODB", hide_env_values = true)]
    mongodb: Option<String>,
    /// A Redis that may be filled; without it, its rows are not run.
    #[arg(long, env = "KITH_TEST_REDIS", hide_env_values = true)]
    redis: Option<String>,
    /// The program of a node [default: the one beside this program].
    #[arg(long)]
    kith: Option<PathBuf>,
    /// Where the results go.
    #[arg(long, default_value = "target/bench/ratios.json")]
    out: PathBuf,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    match Arguments::parse().command {
        Command::Bench(arguments) => bench(arguments).await,
        Command::EchoServer { listen } => echo::serve(listen).await.map(|()| ExitCode::SUCCESS),
        Command::Peer { redis, store, keys } => {
            apart::run(redis, store, keys).await.map(|()| ExitCode::SUCCESS)
        }
        Command::EntryBytes { kind, entries } => {
            println!("{}", entry::bytes_an_entry(kind, entries).await?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn bench(arguments: BenchArguments) -> Result<ExitCode> {
    let beside = || -> Result<PathBuf> {
        let own = std::env::current_exe().context("the path of this program is not known")?;
        Ok(own.with_file_name("kith"))
    };
    let plan = Plan {
        only: arguments.only,
        rounds: arguments.rounds,
        quick: arguments.quick,
        mongodb: arguments.mongodb,
        redis: arguments.redis,
        kith: arguments.kith.map_or_else(beside, Ok)?,
        out: arguments.out,
    };
    Ok(match bench::run(&plan).await? {
        Verdict::Holds => ExitCode::SUCCESS,
        Verdict::Misses if !arguments.check => ExitCode::SUCCESS,
        Verdict::Incomplete if !plan.only.is_empty() => ExitCode::SUCCESS,
        Verdict::Misses | Verdict::Incomplete => ExitCode::FAILURE,
    })
}
