//! The development tool of Kith.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};
use kith_lab::{
    bench::{self, Plan, Verdict},
    checker::{self, Bounds},
    echo,
    entry::{self, Kind},
    history, hunt,
    peers::apart,
    rivals::{self, Sizes},
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
    /// Judges a history and prints what it shows; ends with code 1 when a check does not hold.
    Check(CheckArguments),
    /// Runs Kith's cache beside other schemes under the same faults, prints what each met, and writes it down.
    Compare(CompareArguments),
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
struct CompareArguments {
    /// What is written when and where, and what happens by chance, follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show that it works, with too little of everything to compare.
    #[arg(long)]
    quick: bool,
    /// Where comparison.json and comparison.html go.
    #[arg(long, value_name = "FOLDER", default_value = "target/compare")]
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

#[derive(Args, Debug)]
struct CheckArguments {
    /// The history: a line of JSON for each event.
    file: PathBuf,
    /// How old a cached answer may be while nothing is wrong.
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    healthy_ms: u64,
    /// How old it may be while a fault is on.
    #[arg(long, value_name = "MS", default_value_t = 11_000)]
    faulty_ms: u64,
    /// For how long a fault that has ended may still be felt.
    #[arg(long, value_name = "MS", default_value_t = 11_000)]
    heals_ms: u64,
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
        Command::Check(arguments) => check(&arguments),
        Command::Compare(arguments) => compare(arguments).await,
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
    let named = |row: &hunt::Row| arguments.fault.iter().any(|name| name == row.name);
    let asked = |row: &&hunt::Row| named(row) || arguments.fault.is_empty() && !row.needs_failpoints();
    if arguments.fault.is_empty() {
        let left = hunt::ROWS.iter().filter(|row| row.needs_failpoints()).map(|row| row.name);
        let left = left.collect::<Vec<_>>().join(", ");
        println!("left out, for they need a build with fail points (docs/laboratory.md): {left}");
    }
    let plan = hunt::Plan {
        kith: arguments.kith.map_or_else(beside, Ok)?,
        nodes: arguments.nodes,
        settings: Vec::new(),
        environment: arguments.told,
        seed: arguments.seed,
    };
    let load = hunt::Load { lasts: arguments.seconds.map(Duration::from_secs), ..hunt::Load::default() };
    let (mut judged, mut failed) = (Vec::new(), false);
    for row in hunt::ROWS.iter().filter(asked) {
        match hunt::judged(row, &plan, load, &arguments.out).await {
            Ok(row) => {
                println!("{}: {}", row.row().name, if row.holds() { "holds" } else { "does not hold" });
                if !row.holds() {
                    println!("{}", row.report());
                }
                judged.push(row);
            }
            Err(error) => {
                println!("{}: {error:#}", row.name);
                failed = true;
            }
        }
    }
    println!("\n{}", hunt::table(&judged));
    hunt::write(&judged, &arguments.out)?;
    let holds = !failed && judged.iter().all(hunt::Judged::holds);
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    let bounds = Bounds {
        healthy: Duration::from_millis(arguments.healthy_ms),
        faulty: Duration::from_millis(arguments.faulty_ms),
        heals: Duration::from_millis(arguments.heals_ms),
    };
    let file = arguments.file.display();
    let events = history::read(&arguments.file).with_context(|| format!("{file} is no history"))?;
    let report = checker::check(&events, &bounds);
    print!("{report}");
    Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn compare(arguments: CompareArguments) -> Result<ExitCode> {
    let sizes = if arguments.quick { Sizes::QUICK } else { Sizes::FULL };
    let tell = |run: &rivals::Run| eprintln!("{}: {}", run.fault.name(), run.scheme.name());
    let comparison = rivals::compare(&sizes, arguments.seed, tell).await?;
    comparison.write(&arguments.out)?;
    println!("{}", rivals::table(&comparison.runs));
    let (beyond, ever) = comparison.broken_promises();
    println!("Kith: {beyond} reads older than it promises, {ever} records stale for ever");
    Ok(if beyond == 0 && ever == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
