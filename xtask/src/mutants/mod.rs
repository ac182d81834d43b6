//! Checks that the cache tests would notice a missing rule.

mod names;
mod run;

use std::{
    path::PathBuf,
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, outlive_ctrl_c, root};

/// How many mutants are tested at the same time.
const AT_ONCE: usize = 2;

/// The result of a test run.
#[derive(Clone, Debug)]
struct Verdict {
    mutant: String,
    /// The test that noticed; `None`: no test did.
    noticed: Option<String>,
}

/// Builds the cache tests once, disables each rule in turn, and fails unless a test notices each time.
pub(crate) fn run(only: &[String]) -> Result<()> {
    outlive_ctrl_c(|| {})?;
    let mutants = mutants(only)?;
    let tests = build()?;
    if let Some(failing) = run::first_failure(&tests, None)? {
        bail!("{failing} fails with every rule in place");
    }
    let verdicts = judge_all(&tests, &mutants)?;
    let caught = verdicts.iter().filter(|verdict| verdict.noticed.is_some()).count();
    println!("caught {caught}/{}", verdicts.len());
    if caught < verdicts.len() {
        bail!("{} rules can be taken away and no test notices", verdicts.len() - caught);
    }
    Ok(())
}

/// Returns all rules, or the requested rules.
fn mutants(only: &[String]) -> Result<Vec<String>> {
    let source = root().join("crates/cache/src/testing/rules.rs");
    let source = std::fs::read_to_string(&source).context("could not read the rules of the cache")?;
    let names = names::of(&source);
    if let Some(unknown) = only.iter().find(|only| !names.contains(only)) {
        bail!("there is no rule {unknown}");
    }
    let wanted = |name: &String| only.is_empty() || only.contains(name);
    Ok(names.into_iter().filter(wanted).collect())
}

/// Builds the cache's test programs, with rules that can be disabled.
fn build() -> Result<Vec<PathBuf>> {
    let mut command = cargo();
    command.args(["test", "--profile", "engine", "-p", "kith-cache", "--features", "mutants", "--no-run"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let built = command.stderr(Stdio::inherit()).output().context("could not start cargo")?;
    if !built.status.success() {
        bail!("the tests of the cache do not build");
    }
    let tests: Vec<PathBuf> =
        String::from_utf8_lossy(&built.stdout).lines().filter_map(run::program).collect();
    if tests.is_empty() {
        bail!("cargo names no test program");
    }
    Ok(tests)
}

fn judge_all(tests: &[PathBuf], mutants: &[String]) -> Result<Vec<Verdict>> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let noticed = run::first_failure(tests, Some(mutant))?;
            println!("{mutant}: {}", noticed.as_deref().unwrap_or("NOT CAUGHT"));
            verdicts.push(Verdict { mutant: mutant.clone(), noticed });
        }
        Ok(verdicts)
    };
    let mut verdicts = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let judged = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a run of the tests broke off")))
        });
        anyhow::Ok(judged.collect::<Result<Vec<_>>>()?.concat())
    })?;
    verdicts.sort_by(|one, other| one.mutant.cmp(&other.mutant));
    for verdict in verdicts.iter().filter(|verdict| verdict.noticed.is_none()) {
        println!("not caught: {}", verdict.mutant);
    }
    Ok(verdicts)
}
