//! Runs the examples in docs/internals/testing.md for a shell and Python. Examples in Rust are tests in the
//! crate's documentation.

use std::{
    path::Path,
    process::{Command, Output},
};

const PAGE: &str = include_str!("../../../../../docs/internals/testing.md");

/// Returns the block that is fenced as `language` under the heading.
fn example(heading: &str, language: &str) -> &'static str {
    let section = PAGE.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let block = section.split(&format!("```{language}\n")).nth(1).unwrap();
    block.split("```").next().unwrap()
}

/// Runs a text in an empty folder, with this build's `kith`.
fn run(program: &str, text: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_kith")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    // A `grpcurl` that was built for the tests is on no path.
    let grpcurl = std::env::var_os("KITH_TEST_GRPCURL");
    let grpcurl = grpcurl.iter().filter_map(|program| Path::new(program).parent().map(Path::to_owned));
    let path = [built].into_iter().chain(std::env::split_paths(&path)).chain(grpcurl);
    let path = std::env::join_paths(path).unwrap();
    let mut command = Command::new(program);
    command.args(["-c", text]).current_dir(folder.path()).env("PATH", path).env("TMPDIR", folder.path());
    command.output().unwrap()
}

#[test]
fn shell_example_creates_a_user_in_a_sandbox() {
    let output = run("bash", &format!("set -em\n{}", example("Shell", "sh")));
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains(r#""userName": "ann""#), "{out}{errors}");
    assert!(output.status.success(), "{out}{errors}");
}

#[test]
fn python_example_starts_and_stops_a_node() {
    let output = run("python3", example("Python", "python"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
