use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, ensure};
use clap::Args;
use kith_lab::faults::{CONTROLS, Cassandra, MUTANTS, Mutant, MutantReport, Plan};
use kith_lab_servers::program::program;

use super::ensure_known;

#[derive(Args, Debug)]
pub(crate) struct MutantsArguments {
    /// Run this one alone, after the controls; may be given several times.
    #[arg(long, value_name = "MUTANT")]
    only: Vec<String>,
    /// What happens at random follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program of a node, a build with the features `failpoints` and `mutants` [default: `kith` in the
    /// folder of this program].
    #[arg(long)]
    kith: Option<PathBuf>,
    /// Where the histories and the report go.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
}

impl MutantsArguments {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let plan = Plan::new(program(self.kith.clone())?, 4, self.seed);
        let chosen = self.chosen()?;
        // Cassandra is started once for all of them; if it does not start, the rows that need it report why.
        let _kept = Cassandra::shared().await.ok();
        let mut report = MutantReport::default();
        self.control(&plan, &mut report).await;
        if report.is_controlled() {
            self.try_all(&plan, &chosen, &mut report).await?;
        }
        println!("\n{}", report.text());
        report.write(&self.out)?;
        Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The first is always among those whose program lacks something: it shows that the program can.
    fn chosen(&self) -> Result<Vec<Mutant>> {
        ensure_known("mutant", &self.only, MUTANTS.iter().map(Mutant::name))?;
        let asked =
            |mutant: &Mutant| self.only.is_empty() || self.only.iter().any(|name| name == mutant.name());
        let of_the_program = MUTANTS.iter().any(|mutant| asked(mutant) && !mutant.rules.is_empty());
        let chosen = MUTANTS.into_iter().enumerate();
        let chosen = chosen.filter(|(at, mutant)| asked(mutant) || *at == 0 && of_the_program);
        Ok(chosen.map(|(_, mutant)| mutant).collect())
    }

    async fn control(&self, plan: &Plan, report: &mut MutantReport) {
        for control in &CONTROLS {
            let ran = control.run(plan, &self.out).await;
            let holds = ran.as_ref().is_ok_and(kith_lab::faults::JudgedRun::holds);
            println!("{}: {}", control.name(), if holds { "holds" } else { "does not hold" });
            report.add_control(control, ran);
        }
    }

    async fn try_all(&self, plan: &Plan, chosen: &[Mutant], report: &mut MutantReport) -> Result<()> {
        for mutant in chosen {
            let ran = mutant.run(plan, &self.out).await;
            let is_caught = ran.as_ref().is_ok_and(|judged| mutant.is_caught(judged));
            println!("{}: {}", mutant.name(), if is_caught { "caught" } else { "NOT CAUGHT" });
            let first = mutant.name() == MUTANTS[0].name();
            ensure!(
                !first || ran.as_ref().is_ok_and(|judged| !judged.report().holds()),
                "{} keeps a rule that the variable removes: is it a build with the feature `mutants`?",
                plan.kith.display()
            );
            report.add(*mutant, ran);
        }
        Ok(())
    }
}
