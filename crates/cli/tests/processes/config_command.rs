//! Runs the `kith` command as a process: its exit codes, and its single line with the reason.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

#[cfg(feature = "embedded")]
use crate::spawned::Started;
use crate::spawned::{self, kith, output_of};

fn run(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    output_of(kith(dir, arguments))
}

fn refused(dir: &Path, arguments: &[&str]) -> String {
    spawned::refused(kith(dir, arguments))
}

#[test]
fn file_in_the_folder_is_read_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kith.toml"), "[limits]\nconnections = 3\n").unwrap();
    let (code, stdout, _) = run(dir.path(), &["config"]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("connections = 3 # kith.toml"), "{stdout}");
    let (code, stdout, _) = run(dir.path(), &["config", "--check"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "configuration\tfile\nright\t-\n"));
    std::fs::write(dir.path().join("kith.toml"), "[limits]\nconnection = 3\n").unwrap();
    let line = refused(dir.path(), &["config", "--check"]);
    assert!(line.contains("did you mean `connections`?"), "{line}");
}

#[cfg(feature = "embedded")]
#[test]
fn node_serves_in_empty_folder_until_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    for _twice in 0..2 {
        let node = Started::new(dir.path(), &[]);
        node.until_ready(|code, _| code == 200);
        node.stop();
        assert!(dir.path().join("data/kith.db").exists());
    }
}

#[cfg(feature = "embedded")]
#[test]
fn migrate_lists_and_applies_once() {
    let dir = tempfile::tempdir().unwrap();
    let (code, pending, _) = run(dir.path(), &["migrate", "--dry-run"]);
    assert_eq!(code, Some(0));
    assert!(pending.contains("\n0001\t") && pending.trim_end().ends_with("pending"), "{pending}");
    let (_, applied, _) = run(dir.path(), &["migrate"]);
    assert_eq!(applied.lines().count(), pending.lines().count(), "{applied}");
    let (_, nothing, _) = run(dir.path(), &["migrate"]);
    assert_eq!(nothing.trim_end(), "number\tname\tstate");
    let (_, status, _) = run(dir.path(), &["migrate", "--status"]);
    assert!(status.lines().skip(1).all(|line| line.ends_with("applied")), "{status}");
}
