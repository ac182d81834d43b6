//! The reference documents: written by the command out of its own code, kept in `docs/`.

use std::{fs, process::Stdio};

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, root, succeed};

/// File, and what the command calls it.
const DOCUMENTS: [(&str, &str); 5] = [
    ("docs/api.md", "api"),
    ("docs/errors.md", "errors"),
    ("docs/metrics.md", "metrics"),
    ("docs/configuration.md", "configuration"),
    ("docs/command-line.md", "command-line"),
];
const KITH: [&str; 4] = ["-p", "kith-server", "--bin", "kith"];

/// Writes every document.
pub(crate) fn write() -> Result<()> {
    for (file, text) in documents()? {
        let known = kept(file);
        if known != text {
            fs::write(root().join(file), text).with_context(|| format!("could not write {file}"))?;
            println!("{file}: written");
        }
    }
    Ok(())
}

/// Fails when a document is not what the code says, and names each that is not.
pub(crate) fn check() -> Result<()> {
    let differing: Vec<_> =
        documents()?.into_iter().filter(|(file, text)| kept(file) != *text).map(|(file, _)| file).collect();
    if !differing.is_empty() {
        bail!(
            "{} differ from the code; run `cargo xtask docs` and keep what it writes",
            differing.join(", ")
        );
    }
    println!("docs: the reference documents say what the code says");
    Ok(())
}

/// As it lies there; empty where there is none.
fn kept(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_default()
}

fn documents() -> Result<Vec<(&'static str, String)>> {
    succeed(cargo().args(["build", "--quiet"]).args(KITH))?;
    DOCUMENTS.into_iter().map(|(file, name)| Ok((file, document(name)?))).collect()
}

fn document(name: &str) -> Result<String> {
    let mut command = cargo();
    command.args(["run", "--quiet"]).args(KITH).args(["--", "reference", name, "--output", "plain"]);
    let output = command.stderr(Stdio::inherit()).output().context("could not start cargo")?;
    if !output.status.success() {
        bail!("`kith reference {name}` failed ({})", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}
