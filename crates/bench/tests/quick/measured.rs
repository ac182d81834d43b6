//! Runs the command as users call it, and looks at what it prints.

use std::process::{Command, Output};

pub(crate) const MONGODB: (&str, &str) = ("mongodb", "KITH_TEST_MONGODB");
pub(crate) const CQL: (&str, &str) = ("cql", "KITH_TEST_CQL");
pub(crate) const REDIS: (&str, &str) = ("redis", "KITH_TEST_REDIS");

pub(crate) fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith-bench"));
    command.args(arguments).env_remove(MONGODB.1).env_remove(CQL.1).env_remove(REDIS.1);
    command.output().expect("the command starts")
}

/// The address of a test server.
fn address(variable: &str) -> String {
    std::env::vars().find(|(name, _)| name == variable).expect("an address").1
}

pub(crate) fn lines(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Measures these rows with servers, each given with the variable for its address, and finds each row in the
/// table.
pub(crate) fn measure(servers: &[(&str, &str)], rows: &[&str]) {
    let servers = servers.iter().map(|(name, variable)| format!("--{name}={}", address(variable)));
    let only = rows.iter().map(|row| format!("--only={row}"));
    let options: Vec<String> = servers.chain(only).collect();
    let mut arguments = vec!["--quick", "--rounds=1"];
    arguments.extend(options.iter().map(String::as_str));
    let text = lines(&bench(&arguments));
    for row in rows {
        assert!(text.contains(&format!("| {row} ")), "{text}");
    }
}
