//! Reads the project's files, as git knows them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Returns the workspace root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns the tracked files whose names end so, relative to the root. Removed files are left out, even
/// before the removal is committed.
pub(crate) fn tracked(ending: &str) -> Vec<String> {
    let listed = output("git", &["ls-files", "-z"]);
    let files = listed.split('\0').filter(|file| !file.is_empty() && file.ends_with(ending));
    let files: Vec<_> = files.filter(|file| root().join(file).is_file()).map(str::to_owned).collect();
    assert!(ending.is_empty() || !files.is_empty(), "git lists no {ending} file");
    files
}

/// Reads a file below the root.
pub(crate) fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|why| panic!("{file}: {why}"))
}

/// Returns each crate's source files, without its tests.
pub(crate) fn sources() -> BTreeMap<String, Vec<String>> {
    let mut sources: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in tracked(".rs") {
        let name = file.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"));
        let Some(name) = name.map(|(name, _)| name.to_owned()) else { continue };
        sources.entry(name).or_default().push(file);
    }
    sources
}

/// Returns a declaration without its indentation and visibility.
pub(crate) fn declaration(line: &str) -> &str {
    let code = line.trim_start();
    match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => {
            rest.split_once(')').map_or(code, |(_, rest)| rest.trim_start())
        }
        Some(rest) => rest.trim_start(),
        None => code,
    }
}

/// Returns the name that a text begins with; empty if there is none.
pub(crate) fn identifier(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Returns cargo's metadata about the workspace members.
pub(crate) fn packages() -> Vec<Value> {
    let metadata = output(env!("CARGO"), &["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Runs a program in the root and returns what it prints. The program must succeed.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
