use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, ensure};
use clap::Args;
use kith_lab::faults::{BROKEN, Broken, CONTROLS, Cassandra, Caught, Plan};
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
        // Started once for all of them; if it does not start, those that need it report why.
        let _kept = Cassandra::shared().await.ok();
        let mut caught = Caught::default();
        self.control(&plan, &mut caught).await;
        if caught.is_controlled() {
            self.try_all(&plan, &chosen, &mut caught).await?;
        }
        println!("\n{}", caught.text());
        caught.write(&self.out)?;
        Ok(if caught.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The first is always among those whose program lacks something: it shows that the program can.
    fn chosen(&self) -> Result<Vec<Broken>> {
        ensure_known("mutant", &self.only, BROKEN.iter().map(Broken::name))?;
        let asked =
            |broken: &Broken| self.only.is_empty() || self.only.iter().any(|name| name == broken.name());
        let of_the_program = BROKEN.iter().any(|broken| asked(broken) && !broken.rules.is_empty());
        let chosen = BROKEN.into_iter().enumerate();
        let chosen = chosen.filter(|(at, broken)| asked(broken) || *at == 0 && of_the_program);
        Ok(chosen.map(|(_, broken)| broken).collect())
    }

    async fn control(&self, plan: &Plan, caught: &mut Caught) {
        for control in &CONTROLS {
            let ran = control.run(plan, &self.out).await;
            let holds = ran.as_ref().is_ok_and(kith_lab::faults::Judged::holds);
            println!("{}: {}", control.name(), if holds { "holds" } else { "does not hold" });
            caught.add_control(control, ran);
        }
    }

    async fn try_all(&self, plan: &Plan, chosen: &[Broken], caught: &mut Caught) -> Result<()> {
        for broken in chosen {
            let ran = broken.run(plan, &self.out).await;
            let is_caught = ran.as_ref().is_ok_and(|judged| broken.is_caught(judged));
            println!("{}: {}", broken.name(), if is_caught { "caught" } else { "NOT CAUGHT" });
            let first = broken.name() == BROKEN[0].name();
            ensure!(
                !first || ran.as_ref().is_ok_and(|judged| !judged.report().holds()),
                "{} keeps a rule that the variable removes: is it a build with the feature `mutants`?",
                plan.kith.display()
            );
            caught.add(*broken, ran);
        }
        Ok(())
    }
}
