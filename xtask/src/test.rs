//! Runs every test, with the servers that they need.

use std::{path::PathBuf, process::Command};

use anyhow::{Result, bail};

use crate::{
    process::{cargo, outlive_ctrl_c, watch},
    servers::{Servers, cassandra_program, folder_for_tests, mongod_program, redis_program},
    tools,
};

/// Test executables whose tests mostly wait, for servers or for each other's programs: many run at the same
/// time.
const WAITING: [&str; 12] = [
    "it",
    "processes",
    "edge_node",
    "edge_traces",
    "metrics_table",
    "reasons_command",
    "cache",
    "collection",
    "redis",
    "remote",
    "records",
    "weight",
];
/// Test executables that need the processors, or measure ages: as many run at the same time as there are
/// processors.
const BUSY: [&str; 8] =
    ["engine", "tidy", "checker", "comparison", "faults", "foreign_lock", "quick", "servers"];
/// The test executable that `cargo xtask nightly` runs: plain cargo leaves it out.
const LONG: &str = "nightly";
/// The number of threads for tests that wait.
const MANY: &str = "3";
/// The behavior that callers see, whatever the store: this module runs a second time, over MongoDB and CQL.
const POLICY: &str = "policy::";

/// The sums over cargo's result lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// The names of failed tests, which otherwise are thousands of lines above the end.
    names: Vec<String>,
}

impl Totals {
    /// Adds a line like `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out`, and
    /// remembers a line like `test a::b ... FAILED`.
    fn add(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.names.push(name.to_owned());
        }
        let Some((_, counts)) = line.split_once("test result: ").and_then(|(_, rest)| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            let mut words = count.split_whitespace();
            let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            match words.next() {
                Some("passed") => self.passed += number,
                Some("failed") => self.failed += number,
                Some("ignored") => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// Runs the tests, with the servers that they need. Fails if a test failed or was ignored, or none ran.
/// `long`: runs the tests for `cargo xtask nightly` instead.
pub(crate) fn run(filter: Option<&str>, long: bool) -> Result<()> {
    outlive_ctrl_c(|| {})?;
    let environment = Environment::start(long)?;
    let mut totals = Totals::default();
    let mut succeeded = true;
    for mut command in if long { vec![environment.tests(&[LONG], filter)] } else { environment.all(filter) } {
        succeeded &= watch(&mut command, |line| totals.add(line))?;
    }
    drop(environment);
    for name in &totals.names {
        println!("failed: {name}");
    }
    println!("{} passed, {} failed, {} ignored", totals.passed, totals.failed, totals.ignored);
    judge(succeeded, &totals)
}

/// A run's servers, and the programs that tests start themselves. Stopped when dropped.
struct Environment {
    servers: Servers,
    programs: Vec<(&'static str, PathBuf)>,
    folder: PathBuf,
}

impl Environment {
    /// Starts the servers while the tests are built, because a server is slow to start.
    fn start(long: bool) -> Result<Self> {
        let programs = vec![
            ("KITH_TEST_GRPCURL", tools::grpcurl()?),
            ("KITH_TEST_BUF", tools::buf()?),
            ("KITH_TEST_PROMTOOL", tools::promtool()?),
            ("KITH_TEST_CASSANDRA", cassandra_program()?),
            ("KITH_TEST_REDIS_SERVER", redis_program()?),
            ("KITH_TEST_MONGOD", mongod_program()?),
        ];
        let folder = folder_for_tests();
        let built = if long { vec![LONG] } else { [&WAITING[..], &BUSY].concat() };
        let servers = Servers::start(&folder, || {
            let mut build = cargo();
            build.args(["test", "--workspace", "--no-run", "--quiet", "--lib", "--bins"]).args(named(&built));
            // The run itself reports errors in the code.
            watch(&mut build, |_| {}).map(drop)
        })?;
        Ok(Self { servers, programs, folder })
    }

    /// Returns every test except the long tests: unit tests and tests that wait, tests that need the
    /// processors, and a second pass over the other store.
    fn all(&self, filter: Option<&str>) -> Vec<Command> {
        let mut waiting = self.cargo();
        waiting.args(["--lib", "--bins"]).args(named(&WAITING)).args(filter);
        waiting.args(["--", "--include-ignored", "--test-threads", MANY]);
        let mut commands = vec![waiting, self.tests(&BUSY, filter)];
        // A filter for the second pass begins with its module.
        if filter.is_none_or(|filter| filter.starts_with(POLICY)) {
            let mut again = self.cargo();
            again.env("KITH_TEST_STORE", "mongodb").args(["--test", "it", "--", "--test-threads", MANY]);
            again.arg(filter.unwrap_or(POLICY));
            commands.push(again);
        }
        commands
    }

    /// Runs the tests in these executables.
    fn tests(&self, executables: &[&str], filter: Option<&str>) -> Command {
        let mut command = self.cargo();
        command.args(named(executables)).args(filter).args(["--", "--include-ignored"]);
        command
    }

    fn cargo(&self) -> Command {
        let mut command = cargo();
        command.args(["test", "--workspace", "--no-fail-fast"]).env("TMPDIR", &self.folder);
        command.envs(self.servers.addresses()).envs(self.programs.iter().map(|(name, path)| (name, path)));
        command
    }
}

fn named<'a>(executables: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    executables.iter().flat_map(|name| ["--test", *name])
}

fn judge(succeeded: bool, totals: &Totals) -> Result<()> {
    match totals {
        _ if !succeeded => bail!("not every test passed"),
        Totals { ignored: 1.., .. } => bail!("some tests were ignored"),
        Totals { passed: 0, .. } => bail!("no test ran"),
        Totals { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_result_lines_are_summed() {
        let mut totals = Totals::default();
        totals.add(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.1s",
        );
        totals.add("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out");
        totals.add("test a::b ... ok");
        totals.add("test a::c ... FAILED");
        assert_eq!(totals, Totals { passed: 5, failed: 1, ignored: 1, names: vec!["a::c".to_owned()] });
    }

    /// Cargo would silently leave out an executable that is in no list.
    #[test]
    fn every_test_executable_is_in_one_list() {
        let metadata =
            cargo().args(["metadata", "--format-version", "1", "--no-deps", "--offline"]).output().unwrap();
        let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let targets = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
        let tests = targets.filter(|target| target["kind"][0] == "test");
        let mut found: Vec<&str> = tests.map(|target| target["name"].as_str().unwrap()).collect();
        found.sort_unstable();
        found.dedup();
        let mut listed = [&WAITING[..], &BUSY, &[LONG]].concat();
        listed.sort_unstable();
        assert_eq!(found, listed);
    }

    #[test]
    fn run_without_tests_or_with_ignored_ones_fails() {
        assert!(judge(true, &Totals { passed: 1, ..Totals::default() }).is_ok());
        assert!(judge(true, &Totals::default()).is_err());
        assert!(judge(true, &Totals { passed: 1, ignored: 1, ..Totals::default() }).is_err());
        assert!(judge(false, &Totals { passed: 1, ..Totals::default() }).is_err());
    }
}
