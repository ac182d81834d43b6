//! Runs every test, with the servers that they need.

use std::{mem, path::PathBuf, process::Command, thread};

use anyhow::{Result, bail};

use crate::{
    clients,
    process::{cargo, outlive_ctrl_c, watch},
    servers::{Servers, cassandra_program, folder_for_tests, mongod_program, redis_program},
    tools,
};

/// Test executables whose tests mostly wait, for servers or for each other's programs: many run at the same
/// time.
const WAITING: [&str; 12] = [
    "conformance",
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
/// Test executables that wait, too, and run beside the others: each crate's large one.
const BESIDE: [&str; 1] = ["it"];
/// Test executables that need the processors, or measure ages: as many run at the same time as there are
/// processors.
const BUSY: [&str; 7] = ["engine", "tidy", "checker", "faults", "foreign_lock", "quick", "servers"];
/// The test executable that `cargo xtask nightly` runs: plain cargo leaves it out.
const LONG: &str = "nightly";
/// The number of threads for tests that wait, in each of the two lanes.
const MANY: &str = "2";
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
    /// A command failed.
    broken: bool,
}

impl Totals {
    fn join(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.names.extend(other.names);
        self.broken |= other.broken;
    }

    /// Counts a client's tests as one.
    fn add_folder(&mut self, folder: &str, passed: bool) {
        self.passed += u64::from(passed);
        self.failed += u64::from(!passed);
        self.names.extend((!passed).then(|| folder.to_owned()));
    }

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

/// Runs the tests, with the servers that they need, and without a filter those of clients in other languages.
/// Fails if a test failed or was ignored, or none ran. `long`: runs the tests for `cargo xtask nightly`
/// instead.
pub(crate) fn run(filter: Option<&str>, long: bool) -> Result<()> {
    outlive_ctrl_c(|| {})?;
    let environment = Environment::start(long)?;
    let totals = if long { count(environment.tests(&[LONG], filter))? } else { environment.all(filter)? };
    drop(environment);
    for name in &totals.names {
        println!("failed: {name}");
    }
    println!("{} passed, {} failed, {} ignored", totals.passed, totals.failed, totals.ignored);
    judge(&totals)
}

/// Runs a command, and prints its lines a test executable at a time, because another command may run beside
/// it.
fn count(mut command: Command) -> Result<Totals> {
    let (mut totals, mut lines) = (Totals::default(), String::new());
    let succeeded = watch(&mut command, |line| {
        totals.add(line);
        lines.push_str(line);
        lines.push('\n');
        if line.starts_with("test result: ") {
            print!("{}", mem::take(&mut lines));
        }
    })?;
    print!("{lines}");
    totals.broken |= !succeeded;
    Ok(totals)
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
        let built = if long { vec![LONG] } else { [&WAITING[..], &BESIDE, &BUSY].concat() };
        let servers = Servers::start(&folder, || {
            let mut build = cargo();
            build.args(["test", "--workspace", "--no-run", "--quiet", "--lib", "--bins"]).args(named(&built));
            // The run itself reports errors in the code.
            watch(&mut build, |_| {}).map(drop)
        })?;
        Ok(Self { servers, programs, folder })
    }

    /// Runs every test except the long tests: those that wait, in two lanes beside each other, without a
    /// filter those of clients in other languages, and those that need the processors.
    fn all(&self, filter: Option<&str>) -> Result<Totals> {
        let (one, other) = thread::scope(|scope| {
            let other = scope.spawn(|| self.beside(filter));
            (self.waiting(filter), other.join())
        });
        let Ok(other) = other else { bail!("a lane of the tests panicked") };
        let mut totals = one?;
        totals.join(other?);
        if filter.is_none() {
            clients::run(None)?.iter().for_each(|(folder, passed)| totals.add_folder(folder, *passed));
        }
        totals.join(count(self.tests(&BUSY, filter))?);
        Ok(totals)
    }

    /// Runs unit tests, and what waits.
    fn waiting(&self, filter: Option<&str>) -> Result<Totals> {
        let mut waiting = self.cargo();
        waiting.args(["--lib", "--bins"]).args(named(&WAITING)).args(filter);
        waiting.args(["--", "--include-ignored", "--test-threads", MANY]);
        count(waiting)
    }

    /// Runs the large executables, and a second pass over the other store.
    fn beside(&self, filter: Option<&str>) -> Result<Totals> {
        let mut first = self.tests(&BESIDE, filter);
        first.args(["--test-threads", MANY]);
        let mut totals = count(first)?;
        // A filter for the second pass begins with its module.
        if filter.is_none_or(|filter| filter.starts_with(POLICY)) {
            let mut again = self.cargo();
            again.env("KITH_TEST_STORE", "mongodb").args(["--test", "it", "--", "--test-threads", MANY]);
            again.arg(filter.unwrap_or(POLICY));
            totals.join(count(again)?);
        }
        Ok(totals)
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

fn judge(totals: &Totals) -> Result<()> {
    match totals {
        Totals { broken: true, .. } | Totals { failed: 1.., .. } => bail!("not every test passed"),
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
        let names = vec!["a::c".to_owned()];
        assert_eq!(totals, Totals { passed: 5, failed: 1, ignored: 1, names, broken: false });
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
        let mut listed = [&WAITING[..], &BESIDE, &BUSY, &[LONG]].concat();
        listed.sort_unstable();
        assert_eq!(found, listed);
    }

    #[test]
    fn run_without_tests_or_with_ignored_ones_fails() {
        let passed = Totals { passed: 1, ..Totals::default() };
        assert!(judge(&passed).is_ok());
        assert!(judge(&Totals::default()).is_err());
        assert!(judge(&Totals { ignored: 1, ..passed.clone() }).is_err());
        assert!(judge(&Totals { failed: 1, ..passed.clone() }).is_err());
        assert!(judge(&Totals { broken: true, ..passed }).is_err());
    }
}
