//! Measures and tries things on real servers: ratios, hunt, alerts, clients, demonstration.

use std::{env, process::Command};

use anyhow::Result;

use crate::{
    process::{cargo, outlive_ctrl_c, root, succeed, target},
    servers::{Servers, cassandra_program, mongod_program, redis_program, start_cassandra},
    tools,
};

/// Builds the benchmarks for release and runs them against a real MongoDB, Cassandra and Redis.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut command = built("kith-bench")?;
    command.args(arguments);
    let servers = Servers::start(&env::temp_dir(), || Ok(()))?;
    succeed(command.envs(servers.addresses()))
}

/// Builds the laboratory for release and runs its `hunt`, which starts the servers that it disturbs.
pub(crate) fn hunt(arguments: &[String]) -> Result<()> {
    over_its_own_servers(laboratory("hunt", arguments)?)
}

/// Builds the laboratory for release and runs its `alerts`, which does the same and asks promtool.
pub(crate) fn alerts(arguments: &[String]) -> Result<()> {
    let mut command = laboratory("alerts", arguments)?;
    command.env("KITH_TEST_PROMTOOL", tools::promtool()?);
    over_its_own_servers(command)
}

/// Builds the laboratory for release and runs its `clients`, which starts its servers and builds the clients.
pub(crate) fn trial(arguments: &[String]) -> Result<()> {
    let mut command = laboratory("clients", arguments)?;
    command.env("KITH_TEST_BUF", tools::buf()?);
    over_its_own_servers(command)
}

/// Builds the laboratory for release and shows a cluster at work, over servers that it starts itself.
pub(crate) fn demo(arguments: &[String]) -> Result<()> {
    let command = laboratory("demo", arguments)?;
    let mut sample = Command::new(target().join("release/kith"));
    succeed(sample.args(["sample", "--out"]).arg(root().join("target/sample")))?;
    over_its_own_servers(command)
}

/// Runs a program that starts its servers itself, except Cassandra, which takes long to start.
fn over_its_own_servers(mut command: Command) -> Result<()> {
    let (mongod, redis, cassandra) =
        (mongod_program()?, redis_program()?, start_cassandra(&env::temp_dir())?);
    command.env("KITH_TEST_MONGOD", mongod).env("KITH_TEST_REDIS_SERVER", redis);
    command.env("KITH_TEST_CASSANDRA", cassandra_program()?);
    succeed(command.env("KITH_TEST_CQL", &cassandra.uri))
}

fn laboratory(task: &str, arguments: &[String]) -> Result<Command> {
    let mut command = built("kith-lab")?;
    command.arg(task).args(arguments);
    Ok(command)
}

/// Builds the node program and this program for release.
fn built(program: &str) -> Result<Command> {
    outlive_ctrl_c(|| {})?;
    succeed(cargo().args(["build", "--release", "-p", "kith-cli", "-p", program]))?;
    // `cargo run` is not used: it would build the server again with other features.
    let mut command = Command::new(target().join("release").join(program));
    command.current_dir(root());
    Ok(command)
}
