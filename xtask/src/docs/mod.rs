//! Writes the reference documents, which the command generates from its own code. Some are kept in
//! `docs/reference/`. The others repeat the contract, which a node serves by reflection and at
//! `/openapi.json`, or what `--help` prints, so they are built and not kept.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, root, succeed, target};

/// Each kept document: its file, and its name in `kith reference`.
const KEPT: [(&str, &str); 5] = [
    ("docs/reference/authorization.md", "authorization"),
    ("docs/reference/errors.md", "errors"),
    ("docs/reference/metrics.md", "metrics"),
    ("docs/reference/configuration.md", "configuration"),
    ("docs/reference/kith.schema.json", "configuration-schema"),
];
/// Each document that is only built: its file in the target folder, and its name in `kith reference`.
const BUILT: [(&str, &str); 3] =
    [("docs/api.md", "api"), ("docs/openapi.json", "openapi"), ("docs/command-line.md", "command-line")];
/// Builds a test too, since tests enable other features of libraries: without it, most libraries would be
/// built again.
const KITH: [&str; 7] = ["build", "--quiet", "--workspace", "--bin", "kith", "--test", "tidy"];

/// Writes every document.
pub(crate) fn write() -> Result<()> {
    for (file, text) in documents()? {
        if kept(file) != text {
            put(&root().join(file), &text)?;
            println!("{file}: written");
        }
    }
    for (file, name) in BUILT {
        let path = target().join(file);
        put(&path, &document(name)?)?;
        println!("{}: written", shown(&path));
    }
    Ok(())
}

/// Fails if a kept document differs from what the code writes, and names each that differs.
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

/// The text of a kept document; empty if the file does not exist.
fn kept(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_default()
}

/// Returns the pages that are only built. Their names are those that they would have among the kept pages:
/// `docs/reference/api.md`.
pub(crate) fn built_pages() -> Result<Vec<(String, String)>> {
    succeed(cargo().args(KITH))?;
    let pages = BUILT.into_iter().filter(|(file, _)| file.ends_with(".md"));
    pages.map(|(file, name)| Ok((file.replace("docs/", "docs/reference/"), document(name)?))).collect()
}

/// Writes a file, and creates its folder.
fn put(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder.and_then(|()| fs::write(path, text)).with_context(|| format!("could not write {}", shown(path)))
}

/// A path below the root without the root.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Builds the command, and asks it for each kept document.
fn documents() -> Result<Vec<(&'static str, String)>> {
    succeed(cargo().args(KITH))?;
    KEPT.into_iter().map(|(file, name)| Ok((file, document(name)?))).collect()
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
