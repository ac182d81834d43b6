//! Every test, with the servers that they need.

use std::thread;

use anyhow::{Result, bail};

use crate::{
    process::{cargo, outlive_ctrl_c, watch},
    servers::{Cassandra, Mongodb, Redis, Running, cassandra_program, mongod_program, redis_program},
    tools,
};

/// What callers meet, whatever the store.
const POLICY: [&str; 22] = [
    "--test",
    "users",
    "--test",
    "groups",
    "--test",
    "members",
    "--test",
    "dismissed",
    "--test",
    "presence",
    "--test",
    "applications",
    "--test",
    "relation_lists",
    "--test",
    "relation_log",
    "--test",
    "relations",
    "--test",
    "bad_input",
    "--test",
    "bad_input_relations",
];

/// Sums of cargo's result lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Totals {
    /// Adds a line like `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out`.
    fn add(&mut self, line: &str) {
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

/// Runs every test, the ones that need servers too, and fails when one failed, was ignored, or none ran.
pub(crate) fn run(filter: Option<&str>) -> Result<()> {
    outlive_ctrl_c(|| {})?;
    let (grpcurl, promtool) = (tools::grpcurl()?, tools::promtool()?);
    let (mongodb, redis, cassandra) = start()?;
    let mut totals = Totals::default();
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(filter).args(["--", "--include-ignored"]);
    command.env("KITH_TEST_MONGODB", &mongodb.uri).env("KITH_TEST_GRPCURL", grpcurl);
    command.env("KITH_TEST_CQL", &cassandra.uri).env("KITH_TEST_CASSANDRA", cassandra_program()?);
    command.env("KITH_TEST_REDIS", &redis.uri).env("KITH_TEST_REDIS_SERVER", redis_program()?);
    command.env("KITH_TEST_MONGOD", mongod_program()?).env("KITH_TEST_PROMTOOL", promtool);
    let mut succeeded = watch(&mut command, |line| totals.add(line))?;
    // The same again, over the other store.
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(POLICY).args(filter);
    command.env("KITH_TEST_MONGODB", &mongodb.uri).env("KITH_TEST_STORE", "mongodb");
    command.env("KITH_TEST_CQL", &cassandra.uri);
    succeeded &= watch(&mut command, |line| totals.add(line))?;
    drop((mongodb, redis, cassandra));
    println!("{} passed, {} failed, {} ignored", totals.passed, totals.failed, totals.ignored);
    judge(succeeded, totals)
}

/// Starts the servers while the tests are built: one of them takes its time.
fn start() -> Result<(Running, Running, Running)> {
    let cassandra = thread::spawn(Cassandra::start);
    let (mongodb, redis) = (Mongodb::start()?, Redis::start()?);
    // What is wrong with the code is told by the run itself.
    watch(cargo().args(["test", "--workspace", "--no-run", "--quiet"]), |_| {})?;
    let Ok(cassandra) = cassandra.join() else { bail!("Cassandra was not started") };
    Ok((mongodb, redis, cassandra?))
}

fn judge(succeeded: bool, totals: Totals) -> Result<()> {
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
    fn result_lines_are_summed_and_others_passed_over() {
        let mut totals = Totals::default();
        totals.add(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.1s",
        );
        totals.add("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out");
        totals.add("test a::b ... ok");
        assert_eq!(totals, Totals { passed: 5, failed: 1, ignored: 1 });
    }

    #[test]
    fn a_run_without_tests_or_with_ignored_ones_fails() {
        assert!(judge(true, Totals { passed: 1, ..Totals::default() }).is_ok());
        assert!(judge(true, Totals::default()).is_err());
        assert!(judge(true, Totals { passed: 1, failed: 0, ignored: 1 }).is_err());
        assert!(judge(false, Totals { passed: 1, ..Totals::default() }).is_err());
    }
}
