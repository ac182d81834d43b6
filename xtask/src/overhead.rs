//! Measures what the clients cost above the bare stubs: the CPU time of a GetUser. Also measures a copy of
//! the near cache.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    node::Node,
    process::{cargo, root, succeed, target},
    tools,
};

/// A client, and the script that measures it in its folder. `$1` is empty while the script builds, and the
/// address of a node when it measures: then it prints one line of JSON.
struct Measured {
    folder: &'static str,
    script: &'static str,
    /// The highest ratio of a measured name.
    goal: fn(&str) -> f64,
}

const CLIENTS: [Measured; 4] = [
    Measured {
        folder: "crates/client",
        // Built with the node, because cargo would build what they share again for each of them.
        script: r#"[ -z "$1" ] || exec "$EXAMPLE" "$1""#,
        // A copy of the near cache has microseconds instead.
        goal: |name| if name == "near_hit" { 0.3 } else { 1.10 },
    },
    Measured {
        folder: "clients/go",
        script: r#"program=../../target/clients-go/overhead
if [ -z "$1" ]; then exec go build -o "$program" ./internal/overhead; fi
exec "$program" "$1""#,
        goal: |_| 1.10,
    },
    Measured {
        folder: "clients/python",
        script: r#". ./prepare.sh >&2
if [ -n "$1" ]; then exec "$tools/python" bench/overhead.py "$1"; fi"#,
        goal: |_| 1.25,
    },
    Measured {
        folder: "clients/typescript",
        script: r#"if [ -n "$1" ]; then exec npm run --silent overhead -- "$1"; fi
[ node_modules -nt package-lock.json ] || npm ci --silent
exec npm run --silent generate"#,
        goal: |_| 1.25,
    },
];

/// Builds the programs, runs them one after the other against a node, and prints a table. The node is the
/// program that `KITH` names, else one that is built for release.
///
/// # Errors
/// Fails if a program fails, or a ratio is above its goal.
pub(crate) fn run() -> Result<()> {
    let given = env::var_os("KITH").map(fs::canonicalize).transpose().context("KITH names no program")?;
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "-p", "kith-client", "--example", "overhead"]);
    build.args(["--features", "kith-client/near-cache"]);
    if given.is_none() {
        build.args(["-p", "kith-cli", "--bin", "kith"]);
    }
    succeed(&mut build)?;
    let program = given.unwrap_or_else(|| target().join("release/kith"));
    let buf = tools::buf()?;
    for client in &CLIENTS {
        succeed(&mut client.command("", &buf))?;
    }
    let node = Node::start(&program)?;
    let mut rows = vec!["| client | CPU of a call over the bare stub | goal | |".to_owned()];
    rows.push("| --- | --- | --- | --- |".to_owned());
    let mut above = 0;
    for client in &CLIENTS {
        for (name, ratio) in client.ratios(node.address(), &buf)? {
            let goal = (client.goal)(&name);
            above += usize::from(ratio > goal);
            let result = if ratio > goal { "ABOVE" } else { "holds" };
            rows.push(format!("| {name} | {ratio:.3} | {goal:.2} | {result} |"));
        }
    }
    println!("{}", rows.join("\n"));
    ensure!(above == 0, "{above} ratios are above their goals");
    Ok(())
}

impl Measured {
    fn command(&self, address: &str, buf: &Path) -> Command {
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", self.script, "overhead", address]);
        command.current_dir(root().join(self.folder)).env("KITH_TEST_BUF", buf);
        command.env("EXAMPLE", root().join(target()).join("release/examples/overhead"));
        command
    }

    /// Returns the ratios that the program prints, by name.
    fn ratios(&self, address: &str, buf: &Path) -> Result<BTreeMap<String, f64>> {
        eprintln!("     Running {}", self.folder);
        let output = self.command(address, buf).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "{} cannot be measured ({})", self.folder, output.status);
        parse(&String::from_utf8_lossy(&output.stdout)).with_context(|| self.folder.to_owned())
    }
}

/// Reads the last line, such as `{"go": 1.043}`.
fn parse(printed: &str) -> Result<BTreeMap<String, f64>> {
    let line = printed.lines().last().context("nothing was printed")?;
    let ratios: BTreeMap<String, f64> = serde_json::from_str(line)?;
    ensure!(!ratios.is_empty(), "no ratio was printed");
    Ok(ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_in_the_last_line() {
        assert_eq!(parse("a warning\n{\"go\": 1.04}\n").unwrap()["go"], 1.04);
        assert!(parse("").is_err() && parse("{}").is_err() && parse("ratio 1.04").is_err());
    }
}
