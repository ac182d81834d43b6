//! The files of the project, as git knows them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Tracked files below the root whose name ends so; those removed and not yet committed are left out.
pub(crate) fn tracked(ending: &str) -> Vec<String> {
    let listed = output("git", &["ls-files", "-z"]);
    let files = listed.split('\0').filter(|file| !file.is_empty() && file.ends_with(ending));
    let files: Vec<_> = files.filter(|file| root().join(file).is_file()).map(str::to_owned).collect();
    assert!(ending.is_empty() || !files.is_empty(), "git lists no {ending} file");
    files
}

/// The text of a file below the root.
pub(crate) fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|why| panic!("{file}: {why}"))
}

/// What cargo says of the members of the workspace.
pub(crate) fn packages() -> Vec<Value> {
    let metadata = output(env!("CARGO"), &["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// What a program that succeeds prints, run in the root.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
