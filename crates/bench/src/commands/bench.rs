use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;
use kith_bench::{
    claims::Plan,
    run::{self, Verdict},
};
use kith_lab_servers::program::program;

#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
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
    /// `HOST:PORT` of a Cassandra that may be filled; without it, its rows are not run.
    #[arg(long, env = "KITH_TEST_CQL", hide_env_values = true)]
    cql: Option<String>,
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

impl BenchArguments {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let plan = Plan {
            only: self.only,
            rounds: self.rounds,
            quick: self.quick,
            mongodb: self.mongodb,
            cql: self.cql,
            redis: self.redis,
            kith: program(self.kith)?,
            out: self.out,
        };
        Ok(match run::run(&plan).await? {
            Verdict::Holds => ExitCode::SUCCESS,
            Verdict::Misses if !self.check => ExitCode::SUCCESS,
            Verdict::Incomplete if !plan.only.is_empty() => ExitCode::SUCCESS,
            Verdict::Misses | Verdict::Incomplete => ExitCode::FAILURE,
        })
    }
}
