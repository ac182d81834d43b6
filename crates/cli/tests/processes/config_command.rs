//! The `kith` command as a process: codes it ends with, and its one line about why.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

fn kith(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    command.current_dir(dir).args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KITH_") {
            command.env_remove(name);
        }
    }
    command
}

fn ended(dir: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = kith(dir, arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// What a node that does not start says: one line, with code 2.
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let (code, _, stderr) = ended(dir, arguments);
    let said: Vec<_> = stderr.lines().filter(|line| line.starts_with("kith:")).collect();
    assert_eq!((code, said.len()), (2, 1), "{stderr}");
    assert!(!stderr.contains("backtrace") && !stderr.contains("panicked"), "{stderr}");
    said[0].to_owned()
}

/// A node on free ports, once it serves; killed when the test fails.
struct Serving(Child);

impl Serving {
    fn start(dir: &Path) -> Self {
        let arguments = ["--listen", "127.0.0.1:0", "--set", "operations.listen=127.0.0.1:0"];
        let mut child = kith(dir, &arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let serving = Self(child);
        assert!(lines.any(|line| line.unwrap().contains("kith serves")), "it serves");
        std::thread::spawn(move || lines.for_each(drop));
        serving
    }

    /// SIGTERM, and the code it ends with.
    fn terminate(mut self) -> Option<i32> {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
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
fn the_file_beside_it_is_read_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kith.toml"), "[limits]\ntokens = 3\n").unwrap();
    let (code, stdout, _) = ended(dir.path(), &["config"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("tokens = 3 # kith.toml"), "{stdout}");
    let (code, stdout, _) = ended(dir.path(), &["config", "--check"]);
    assert_eq!((code, stdout.as_str()), (0, "configuration\tfile\nright\t-\n"));
    std::fs::write(dir.path().join("kith.toml"), "[limits]\ntoken = 3\n").unwrap();
    let line = refused(dir.path(), &["config", "--check"]);
    assert!(line.contains("did you mean `tokens`?"), "{line}");
}

#[cfg(feature = "embedded")]
#[test]
fn node_serves_in_empty_folder_until_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Serving::start(dir.path()).terminate(), Some(0));
    assert!(dir.path().join("data/kith.db").exists());
    assert_eq!(Serving::start(dir.path()).terminate(), Some(0), "and again over the same data");
}

#[cfg(feature = "embedded")]
#[test]
fn second_node_on_the_same_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = Serving::start(dir.path());
    let arguments = ["--listen", "127.0.0.1:0", "--set", "operations.enabled=false"];
    let line = refused(dir.path(), &arguments);
    assert!(line.contains(&first.0.id().to_string()), "names the process: {line}");
}

#[cfg(feature = "embedded")]
#[test]
fn migrate_lists_and_applies_once() {
    let dir = tempfile::tempdir().unwrap();
    let (code, pending, _) = ended(dir.path(), &["migrate", "--dry-run"]);
    assert_eq!(code, 0);
    assert!(pending.contains("\n0001\t") && pending.trim_end().ends_with("pending"), "{pending}");
    let (_, applied, _) = ended(dir.path(), &["migrate"]);
    assert_eq!(applied.lines().count(), pending.lines().count(), "{applied}");
    let (_, nothing, _) = ended(dir.path(), &["migrate"]);
    assert_eq!(nothing.trim_end(), "number\tname\tstate");
    let (_, status, _) = ended(dir.path(), &["migrate", "--status"]);
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
