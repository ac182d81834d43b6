//! The development tool of Kith.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};
use kith_lab::{
    bench::{self, Plan, Verdict},
    echo,
    entry::{self, Kind},
    hunt,
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
    /// Does to a cluster of real processes what a row of the table of faults says, and writes down what clients see.
    Hunt(HuntArguments),
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

#[derive(Args, Debug)]
struct HuntArguments {
    /// Run this row alone; may be given several times.
    #[arg(long, value_name = "ROW")]
    fault: Vec<String>,
    /// What happens by chance follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many nodes.
    #[arg(long, default_value_t = 4)]
    nodes: u32,
    /// How long each fault is on, in seconds [default: as its row says].
    #[arg(long)]
    seconds: Option<u64>,
    /// What a test build of the program is told, such as `KITH_MUTANT=chain_gap`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = told)]
    told: Vec<(String, String)>,
    /// The program of a node [default: the one beside this program].
    #[arg(long)]
    kith: Option<PathBuf>,
    /// Where the histories go.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
}

/// Errors are told in one line, whatever `RUST_BACKTRACE` says: they are about servers and arguments.
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
        Command::Bench(arguments) => bench(arguments).await,
        Command::Hunt(arguments) => hunt(arguments).await,
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

fn told(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it has no =")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The program of a node.
fn beside() -> Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this program is not known")?;
    Ok(own.with_file_name("kith"))
}

async fn hunt(arguments: HuntArguments) -> Result<ExitCode> {
    let known = |name: &String| hunt::ROWS.iter().any(|row| row.name == name);
    if let Some(name) = arguments.fault.iter().find(|name| !known(name)) {
        let names = hunt::ROWS.map(|row| row.name).join(", ");
        anyhow::bail!("no fault is named {name}; there are: {names}");
    }
    let asked =
        |row: &&hunt::Row| arguments.fault.is_empty() || arguments.fault.iter().any(|name| name == row.name);
    let rows = hunt::ROWS.iter().filter(asked);
    let plan = hunt::Plan {
        kith: arguments.kith.map_or_else(beside, Ok)?,
        nodes: arguments.nodes,
        settings: Vec::new(),
        environment: arguments.told,
        seed: arguments.seed,
    };
    let load = hunt::Load { lasts: arguments.seconds.map(Duration::from_secs), ..hunt::Load::default() };
    let mut code = ExitCode::SUCCESS;
    for row in rows {
        let history = arguments.out.join(format!("{}.jsonl", row.name));
        match hunt::run(row, &plan, load, &history).await {
            Ok(hunted) => {
                println!("{} {}: {} calls in {:.0} s", row.name, row.what, hunted.calls, hunted.seconds);
            }
            Err(error) => {
                println!("{} {}: {error:#}", row.name, row.what);
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

async fn bench(arguments: BenchArguments) -> Result<ExitCode> {
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
