use std::{path::PathBuf, process::ExitCode, time::Instant};

use anyhow::Result;
use clap::Args;
use kith_lab::{
    alerts::{self, AlertReport, CASES, Case, CaseResult, Rules},
    faults::Plan,
};
use kith_lab_servers::program::program;

use super::ensure_known;

#[derive(Args, Debug)]
pub(crate) struct AlertsArguments {
    /// Run this case alone, or those that are to set off this alert; may be given several times.
    #[arg(long, value_name = "CASE or ALERT")]
    only: Vec<String>,
    /// What happens at random follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program of a node [default: `kith` in the folder of this program].
    #[arg(long)]
    kith: Option<PathBuf>,
    /// Where the report goes, and in its folder `alerts` what Prometheus' tool was asked.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
}

impl AlertsArguments {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let rules = Rules::published();
        let names = CASES.iter().map(|case| case.name).chain(rules.alerts());
        ensure_known("case or alert", &self.only, names)?;
        let plan = Plan::new(program(self.kith.clone())?, 3, self.seed);
        let mut report = AlertReport::default();
        for case in CASES.iter().filter(|case| self.asks_for(case)) {
            if case.needs_mutants && self.only.is_empty() {
                report.leave_out(case);
                continue;
            }
            let began = Instant::now();
            let shown = self.case(case, &plan, &rules).await;
            print_case(case, &shown, began.elapsed().as_secs());
            report.add(case, shown);
        }
        println!("\n{}", report.text());
        report.write(&self.out)?;
        Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn case(&self, case: &Case, plan: &Plan, rules: &Rules) -> Result<CaseResult> {
        alerts::run(case, plan, rules).await?.judge(rules, &self.out.join("alerts")).await
    }

    fn asks_for(&self, case: &Case) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == case.name || case.shows(name))
    }
}

fn print_case(case: &Case, shown: &Result<CaseResult>, seconds: u64) {
    match shown {
        Ok(shown) => {
            let holds = if shown.holds() { "holds" } else { "does not hold" };
            println!("{}: {holds}, {seconds} s", case.name);
        }
        Err(error) => println!("{}: {error:#}", case.name),
    }
}
