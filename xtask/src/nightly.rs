//! Checks that take too long for each landing: they run once before a piece of work counts as done.

use std::{env, process::Command, time::Instant};

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, outlive_ctrl_c, root, succeed};

/// A part of the nightly run.
struct Part {
    name: &'static str,
    run: Run,
    arguments: &'static [&'static str],
}

/// The way to run a part.
enum Run {
    Cargo,
    Xtask,
}

const EMBEDDED: &[&str] =
    &["clippy", "-p", "kith-cli", "--no-default-features", "--features", "embedded", "--", "-D", "warnings"];

const PARTS: [Part; 15] = [
    Part {
        name: "documentation of the code",
        run: Run::Cargo,
        arguments: &["doc", "--workspace", "--no-deps", "--quiet"],
    },
    Part {
        name: "examples in the documentation",
        run: Run::Cargo,
        arguments: &["test", "--workspace", "--doc"],
    },
    Part { name: "clippy for single-node mode alone", run: Run::Cargo, arguments: EMBEDDED },
    Part { name: "long tests", run: Run::Xtask, arguments: &["test", "--long"] },
    Part { name: "OpenIM, 1,000 users", run: Run::Xtask, arguments: &["test", "dump_of_openim"] },
    Part { name: "engine, 10,000 seeds", run: Run::Xtask, arguments: &["engine"] },
    Part { name: "mutants of the cache", run: Run::Xtask, arguments: &["mutants"] },
    Part { name: "alerts, every case", run: Run::Xtask, arguments: &["alerts"] },
    Part { name: "clients on a cluster", run: Run::Xtask, arguments: &["trial"] },
    Part { name: "overhead of clients", run: Run::Xtask, arguments: &["overhead"] },
    Part { name: "Helm chart", run: Run::Xtask, arguments: &["chart"] },
    Part { name: "site", run: Run::Xtask, arguments: &["site"] },
    Part { name: "release", run: Run::Xtask, arguments: &["release", "--check"] },
    Part { name: "image", run: Run::Xtask, arguments: &["image", "--check"] },
    Part { name: "laboratory, every row", run: Run::Xtask, arguments: &["lab"] },
];

/// Runs every part, even after a part has failed, or only the parts whose name contains `only`. Prints a
/// Markdown row for each when it has ended: its name, its result, and how long it took.
///
/// # Errors
/// Fails if a part failed, or no part has such a name.
pub(crate) fn run(only: Option<&str>) -> Result<()> {
    outlive_ctrl_c(|| {})?;
    let parts: Vec<&Part> =
        PARTS.iter().filter(|part| only.is_none_or(|only| part.name.contains(only))).collect();
    if parts.is_empty() {
        bail!("no part has such a name; there are: {}", PARTS.map(|part| part.name).join("; "));
    }
    let mut rows = vec!["| part | result | minutes |".to_owned(), "| --- | --- | --- |".to_owned()];
    let mut failed = 0;
    for part in parts {
        let begun = Instant::now();
        let ran = succeed(&mut command(part)?);
        failed += usize::from(ran.is_err());
        let result = if ran.is_ok() { "holds" } else { "FAILED" };
        rows.push(format!("| {} | {result} | {} |", part.name, begun.elapsed().as_secs().div_ceil(60)));
        println!("{}", rows.join("\n"));
    }
    if failed > 0 {
        bail!("{failed} parts failed");
    }
    Ok(())
}

fn command(part: &Part) -> Result<Command> {
    let mut command = match part.run {
        Run::Cargo => cargo(),
        Run::Xtask => Command::new(env::current_exe().context("this program cannot be found")?),
    };
    command
        .args(part.arguments)
        .current_dir(root())
        .env("RUSTDOCFLAGS", "-D warnings")
        .env("KITH_TEST_LONG", "1");
    Ok(command)
}
