//! Runs the `kith` command as a process: its exit codes, and its single line with the reason.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{net::TcpListener, path::Path};

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
fn a_taken_port_is_named_with_its_flag() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let line = refused(dir.path(), &["--listen", &format!("127.0.0.1:{port}")]);
    assert!(line.contains(&port) && line.contains("taken") && line.contains("--listen"), "{line}");
    let set = format!("operations.listen=127.0.0.1:{port}");
    let line = refused(dir.path(), &["--listen", "127.0.0.1:0", "--set", &set]);
    assert!(line.contains(&port) && line.contains("operations.listen"), "{line}");
}

#[test]
fn an_unknown_key_and_an_open_port_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let line = refused(dir.path(), &["--set", "limits.in_fligt=1"]);
    assert!(line.contains("did you mean `in_flight`?"), "{line}");
    let line = refused(dir.path(), &["--listen", "0.0.0.0:0"]);
    assert!(line.contains("--insecure-listen"), "{line}");
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
fn second_node_on_the_same_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = Started::new(dir.path(), &[]);
    first.until_ready(|code, _| code == 200);
    let arguments = ["--listen", "127.0.0.1:0", "--set", "operations.enabled=false"];
    let line = refused(dir.path(), &arguments);
    assert!(line.contains(&first.id().to_string()), "names the process: {line}");
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

#[cfg(feature = "cluster")]
#[test]
fn migrate_reports_an_absent_store() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let uri = format!("store.mongodb.uri=mongodb://user:hunter2@127.0.0.1:{free}/");
    let arguments = [
        "migrate",
        "--set",
        "store.backend=cluster",
        "--set",
        &uri,
        "--set",
        "store.mongodb.server_selection=100ms",
    ];
    let line = refused(dir.path(), &arguments);
    assert!(line.contains("does not answer") && !line.contains("hunter2"), "{line}");
}
