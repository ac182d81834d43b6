//! The `hunt` command: runs rows of faults and load tests, and judges their results. Findings are written
//! after each row, so that an interrupted run keeps them.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;
use futures::{StreamExt as _, stream};
use kith_lab::faults::{
    self, Cassandra, Findings, JudgedRun, LOAD_TESTS, Load, Mix, NotRun, Plan, ROWS, Row, Sizes,
};
use kith_lab_servers::program::program;

use super::ensure_known;

#[derive(Args, Debug)]
pub(crate) struct HuntArguments {
    /// Run this row alone; may be given several times.
    #[arg(long, value_name = "ROW")]
    fault: Vec<String>,
    /// Instead of the rows, do one thing after the other to one cluster for so long, and check a million
    /// cached reads.
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["fault", "seconds"])]
    minutes: Option<u64>,
    /// What happens at random follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many nodes.
    #[arg(long, default_value_t = 4)]
    nodes: u32,
    /// How many clients; three in four stay with one node.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// How long each fault is on, in seconds [default: as its row says].
    #[arg(long)]
    seconds: Option<u64>,
    /// So many deaths at least, however long they take, in the rows F40 and F43.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    deaths: u64,
    /// How many rows are run at once, each on a cluster of its own, but for those about load or delay.
    #[arg(long = "beside", value_name = "ROWS", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=8))]
    at_once: u8,
    /// So many acknowledged writes in the rows F50 and F52, and a tenth of it in those of them that have a
    /// fault; a tenth of it are the applications of F53, the marks of F59, the changes of F61 and the
    /// removals of F62, a hundredth the conversations of F63, a 25th the users of F54, a fifth the changes a
    /// second of F51b [default: 100000]. So many acknowledged messages in each row F60 [default: 333334; with
    /// --seconds as many as there are].
    #[arg(long, value_name = "COUNT")]
    writes: Option<u64>,
    /// Of the rows that are about load, a tenth of it: for builds that are not optimised.
    #[arg(long)]
    quick: bool,
    /// A variable for a test build of the program, such as `KITH_MUTANT=chain_gap`; may be given several
    /// times.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(String, String)>,
    /// The program of a node [default: `kith` in the folder of this program].
    #[arg(long)]
    kith: Option<PathBuf>,
    /// Where the histories and the reports go.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
}

impl HuntArguments {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let names = ROWS.iter().map(|row| row.name).chain(LOAD_TESTS.iter().map(|load_test| load_test.name));
        ensure_known("fault", &self.fault, names)?;
        let plan = Plan::new(program(self.kith.clone())?, self.nodes, self.seed);
        let plan = Plan { environment: self.environment.clone(), ..plan };
        let findings = match self.minutes {
            Some(minutes) => self.long(&plan, Duration::from_secs(minutes.saturating_mul(60))).await,
            None => self.rows(&plan).await?,
        };
        println!("\n{}", findings.text());
        findings.write(&self.out)?;
        Ok(if findings.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn load(&self) -> Load {
        let roaming = self.clients / 4;
        let (pinned, lasts) = (self.clients - roaming, self.seconds.map(Duration::from_secs));
        let sends = self.writes.or(lasts.map(|_| 0));
        Load { pinned, roaming, lasts, deaths: self.deaths, sends, ..Load::default() }
    }

    async fn long(&self, plan: &Plan, lasts: Duration) -> Findings {
        let (load, began) = (Load { mix: Mix::READING, ..self.load() }, Instant::now());
        let print_progress = |row: &Row, calls| {
            let seconds = began.elapsed().as_secs();
            eprintln!("{seconds} s: {calls} calls so far; {}: {}", row.name, row.what);
        };
        let ran = faults::long(plan, load, lasts, &self.out, print_progress).await;
        if let Ok(judged) = &ran {
            println!("{}", judged.report());
        }
        Findings::of_long_run(ran)
    }

    /// Runs the rows. The findings so far are written after each, so that a run that is stopped leaves them.
    async fn rows(&self, plan: &Plan) -> Result<Findings> {
        let asked = ROWS.iter().filter(|row| self.asks_for(row.name));
        let (rows, left_out): (Vec<&Row>, Vec<&Row>) =
            asked.partition(|row| !row.needs_failpoints() || !self.fault.is_empty());
        let left_out = left_out.into_iter().map(|row| NotRun::left_out(row.name)).collect();
        let mut findings = Findings::of_rows(Vec::new(), left_out);
        let shared = rows.iter().any(|row| row.shares_cassandra())
            || LOAD_TESTS
                .iter()
                .any(|load_test| load_test.shares_cassandra() && self.asks_for(load_test.name));
        let _kept = kept(shared).await;
        let (alone, others) = rows.into_iter().partition(|row| row.alone);
        self.together(alone, 1, plan, &mut findings).await?;
        self.together(others, self.at_once.into(), plan, &mut findings).await?;
        self.load_tests(plan, &mut findings).await?;
        Ok(findings)
    }

    /// Runs this many rows at once, each over separate servers, and reports each.
    async fn together(
        &self,
        rows: Vec<&'static Row>,
        at_once: usize,
        plan: &Plan,
        findings: &mut Findings,
    ) -> Result<()> {
        let runs = rows
            .into_iter()
            .map(async |row| (row, faults::run_and_judge(row, plan, self.load(), &self.out).await));
        let mut runs = stream::iter(runs).buffered(at_once);
        while let Some((row, ran)) = runs.next().await {
            match ran {
                Ok(row) => {
                    print_row(&row);
                    findings.add_judged(row);
                }
                Err(error) => {
                    println!("{}: {error:#}", row.name);
                    findings.add_not_run(NotRun::failed(row.name, &error));
                }
            }
            findings.write(&self.out)?;
        }
        Ok(())
    }

    async fn load_tests(&self, plan: &Plan, findings: &mut Findings) -> Result<()> {
        let sizes = if self.quick { Sizes::QUICK } else { Sizes::FULL };
        let lasts = self.seconds.map_or(sizes.lasts, Duration::from_secs);
        let sizes = Sizes { lasts, writes: self.writes.unwrap_or(sizes.writes), ..sizes };
        for load_test in LOAD_TESTS.iter().filter(|load_test| self.asks_for(load_test.name)) {
            if load_test.needs_failpoints() && self.fault.is_empty() {
                findings.add_not_run(NotRun::left_out(load_test.name));
                continue;
            }
            match load_test.run(plan, &sizes).await {
                Ok(figures) => {
                    let held = figures.iter().all(|figure| figure.holds);
                    println!("{}: {}", load_test.name, if held { "holds" } else { "does not hold" });
                    figures.iter().for_each(|figure| println!("  {figure}"));
                    findings.add_measured(figures);
                }
                Err(error) => {
                    println!("{}: {error:#}", load_test.name);
                    findings.add_not_run(NotRun::failed(load_test.name, &error));
                }
            }
            findings.write(&self.out)?;
        }
        Ok(())
    }

    fn asks_for(&self, row: &str) -> bool {
        self.fault.is_empty() || self.fault.iter().any(|name| name == row)
    }
}

/// Keeps a server that rows share, so that it is not started for each. If it does not start, each row reports
/// why.
async fn kept(shared: bool) -> Option<std::sync::Arc<Cassandra>> {
    if shared { Cassandra::shared().await.ok() } else { None }
}

fn print_row(row: &JudgedRun) {
    println!("{}: {}", row.name(), if row.holds() { "holds" } else { "does not hold" });
    if row.holds() {
        row.figures().iter().for_each(|figure| println!("  {figure}"));
    } else {
        println!("{row}");
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it has no =")?;
    Ok((name.to_owned(), value.to_owned()))
}
