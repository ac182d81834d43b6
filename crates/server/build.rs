//! Names the commit that the program is built from: from `BUILD_COMMIT` and `BUILD_DATE` if they are set (an
//! image is built without `.git`), else from git, else `unknown`.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=BUILD_COMMIT");
    println!("cargo::rerun-if-env-changed=BUILD_DATE");
    println!("cargo::rerun-if-changed=build.rs");
    watch_head();
    let found = git(&["log", "-1", "--abbrev=10", "--format=%h %cs"]).unwrap_or_default();
    let (commit, date) = found.split_once(' ').unwrap_or(("unknown", "unknown"));
    let given = |name: &str, found: &str| match variable(name) {
        Some(value) if !value.is_empty() => {
            value.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
        }
        Some(_) | None => found.to_owned(),
    };
    println!("cargo::rustc-env=KITH_COMMIT={}", given("BUILD_COMMIT", commit));
    println!("cargo::rustc-env=KITH_COMMIT_DATE={}", given("BUILD_DATE", date));
}

/// A build variable, which is no part of a node's configuration.
fn variable(name: &str) -> Option<String> {
    env::var_os(name)?.into_string().ok()
}

/// A development build looks again when another branch is checked out, but is not rebuilt for each commit. A
/// release is rebuilt for each commit.
fn watch_head() {
    let is_release = variable("PROFILE").is_some_and(|profile| profile == "release");
    let names = if is_release { &["HEAD", "logs/HEAD"][..] } else { &["HEAD"] };
    for name in names {
        // Cargo would build again each time for a file that is not there.
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// git's answer about the repository whose root is this workspace's root. `None`: without git, or in an
/// archive inside another repository.
fn git(arguments: &[&str]) -> Option<String> {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../..");
    if !root.join(".git").exists() {
        return None;
    }
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
