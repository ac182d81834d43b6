//! The reference documents: written by the command out of its own code, kept in `docs/`.

use std::{
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, root, succeed, target};

/// File, and what the command calls it.
const DOCUMENTS: [(&str, &str); 8] = [
    ("docs/api.md", "api"),
    ("docs/authorization.md", "authorization"),
    ("docs/errors.md", "errors"),
    ("docs/metrics.md", "metrics"),
    ("docs/configuration.md", "configuration"),
    ("docs/command-line.md", "command-line"),
    ("docs/openapi.json", "openapi"),
    ("docs/kith.schema.json", "configuration-schema"),
];
/// With a test, since libraries have other features where tests need them: by itself it would build most of them again.
const KITH: [&str; 7] = ["build", "--quiet", "--workspace", "--bin", "kith", "--test", "tidy"];

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
    succeed(cargo().args(KITH))?;
    DOCUMENTS.into_iter().map(|(file, name)| Ok((file, document(name)?))).collect()
}

fn document(name: &str) -> Result<String> {
    let mut command = Command::new(target().join("debug/kith"));
    command.args(["reference", name, "--output", "plain"]).current_dir(root());
    let output = command.stderr(Stdio::inherit()).output().context("could not start kith")?;
    if !output.status.success() {
        bail!("`kith reference {name}` failed ({})", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}
