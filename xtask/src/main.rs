//! The project's own tasks: `cargo xtask test`, `clients`, `lint`, `docs`, `baseline`, `servers`, `bench`,
//! `lab`, `alerts`, `trial`, `demo`, `engine`, `mutants`, `chart`, `site`, `release`, `image`,
//! `overhead`, `build-time`.

mod bench;
mod build_time;
mod chart;
mod clients;
mod contract;
mod debian;
mod docs;
mod engine;
mod image;
mod lint;
mod mutants;
mod nightly;
mod node;
mod overhead;
mod process;
mod release;
mod servers;
mod site;
mod test;
mod tools;
mod up;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Parser;

/// Tasks of the Kith project.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version)]
enum Task {
    /// Runs every test of the workspace, against real servers that it starts and stops itself.
    Test {
        /// Only tests whose name contains this.
        filter: Option<String>,
        /// Runs the long tests, which `nightly` runs, instead of the others.
        #[arg(long)]
        long: bool,
    },
    /// Runs the tests of the clients in other languages and of their samples, as `test` does.
    Clients {
        /// Only folders whose name contains this.
        only: Option<String>,
    },
    /// Runs what takes too long for each landing: long tests, 10,000 seeds of the engine, mutants, every row
    /// of the laboratory, lints of other builds. Takes hours.
    Nightly {
        /// Only parts whose name contains this.
        only: Option<String>,
    },
    /// Checks format, lints, reference documents, the contract by buf, workflows by actionlint and (where
    /// installed) cargo-deny.
    Lint,
    /// Writes the reference documents out of the code: to `docs/reference/`, and API and OpenAPI to
    /// `target/docs/`.
    Docs {
        /// Only compare those in `docs/reference/`: fails if one differs, and names it.
        #[arg(long)]
        check: bool,
    },
    /// Accepts the contract as it is: `lint` fails where a later one breaks its clients.
    Baseline,
    /// Starts the servers that tests use and keeps them until ctrl-c.
    Servers,
    /// Builds the benchmarks for release and measures the ratios; further arguments are theirs.
    Bench(PassedArguments),
    /// Builds the laboratory for release and hunts stale reads and lost writes on real servers, row by row of
    /// the table of faults; further arguments are its own.
    Lab(PassedArguments),
    /// Builds the laboratory for release and shows that faults of real clusters set off the alerts of
    /// deploy/prometheus; further arguments are its own.
    Alerts(PassedArguments),
    /// Builds the laboratory for release and sends messages by the client of each language to a cluster under
    /// cuts and kills; further arguments are its own.
    Trial(PassedArguments),
    /// Builds the laboratory for release and shows a cluster at work, for people to watch: three nodes over
    /// servers that it starts on this machine, each tier, Redis pulled away, a node killed.
    Demo(PassedArguments),
    /// Runs the cache of several nodes in virtual time, optimised: what is lost, late or cut follows from a
    /// seed.
    Engine {
        /// How many seeds, from 0.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// This seed alone: a run that failed is replayed exactly.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Takes each rule of the cache away in turn, and fails unless a test notices.
    Mutants {
        /// Only these rules.
        rules: Vec<String>,
    },
    /// Checks the Helm chart: it renders the manifests of deploy/kubernetes, refuses bad values, and its
    /// resources are valid.
    Chart,
    /// Builds the site of this version into `target/site`, and checks every link in it.
    Site,
    /// Builds the archive for this machine, the Debian package, their digests and the bill of materials into
    /// `target/release-files`.
    Release {
        /// Packs this program instead of building one.
        #[arg(long)]
        program: Option<PathBuf>,
        /// Builds twice, compares the digests, and tries archive and package in an empty Debian. Needs root.
        #[arg(long)]
        check: bool,
    },
    /// Builds the archive and from it the image `kith:local`, with the engine of this machine, and prints how
    /// large it is.
    Image {
        /// Packs this program instead of building one.
        #[arg(long)]
        program: Option<PathBuf>,
        /// Runs the image and the cluster of docker-compose.yml, by an engine that it starts itself. Needs
        /// root.
        #[arg(long)]
        check: bool,
    },
    /// Measures the CPU time of a call by each client over that of the bare stub, and fails above a goal.
    Overhead,
    /// Measures how long builds take, from nothing and after an edit, and prints a table. Takes half an
    /// hour and needs an idle machine.
    BuildTime,
}

/// Arguments of another program.
#[derive(Debug, clap::Args)]
struct PassedArguments {
    /// Arguments that are passed on.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Errors are printed in one line, whatever `RUST_BACKTRACE` says: they are about the project, not about this
/// program.
fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Test { filter, long } => test::run(filter.as_deref(), long),
        Task::Clients { only } => clients::check(only.as_deref()),
        Task::Nightly { only } => nightly::run(only.as_deref()),
        Task::Lint => lint::run(),
        Task::Docs { check: true } => docs::check(),
        Task::Docs { check: false } => docs::write(),
        Task::Baseline => contract::accept(),
        Task::Servers => up::run(),
        Task::Bench(passed) => bench::run(&passed.arguments),
        Task::Lab(passed) => bench::hunt(&passed.arguments),
        Task::Alerts(passed) => bench::alerts(&passed.arguments),
        Task::Trial(passed) => bench::trial(&passed.arguments),
        Task::Demo(passed) => bench::demo(&passed.arguments),
        Task::Engine { seeds, seed } => engine::run(seeds, seed),
        Task::Mutants { rules } => mutants::run(&rules),
        Task::Chart => chart::check(),
        Task::Site => site::build(),
        Task::Release { program, check: true } => release::check(program.as_deref()),
        Task::Release { program, check: false } => release::build(program.as_deref()),
        Task::Image { program, check: true } => image::check(program.as_deref()),
        Task::Image { program, check: false } => image::build(program.as_deref()),
        Task::Overhead => overhead::run(),
        Task::BuildTime => build_time::run(),
    }
}
