//! The systemd unit file: its codes, signals and times are the program's.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use kith_server::config::Config;

use super::files::text;
use crate::{
    polls::block_until,
    spawned::{Started, kith, output_of, signal},
};

const UNIT: &str = "deploy/systemd/kith.service";
const PATIENCE: Duration = Duration::from_secs(30);
const CONFIG: &str = "listen = \"127.0.0.1:0\"\noperations.listen = \"127.0.0.1:0\"\ndrain_wait = \"0s\"\n";

/// Returns the value of a setting that the unit has once.
fn value(key: &str) -> String {
    let unit = text(UNIT);
    let values: Vec<&str> =
        unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect();
    let [value] = values.as_slice() else { panic!("{key}: {values:?}") };
    (*value).to_owned()
}

/// Returns the command that the unit starts, with this folder instead of its own folders.
fn start(folder: &Path) -> Command {
    let here = folder.display().to_string();
    let line = value("ExecStart").replace("/etc/kith", &here);
    let words: Vec<&str> = line.split(' ').collect();
    assert!(words[0].ends_with("/bin/kith"), "{words:?}");
    let mut command = kith(folder, &words[1..]);
    let (name, data) =
        value("Environment").split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert_eq!(data, format!("/var/lib/{}", value("StateDirectory")));
    command.env(name, folder.join("data"));
    command
}

#[test]
fn unit_starts_reloads_and_stops_a_node() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kith.toml"), CONFIG).unwrap();
    let node = Started::of(start(folder.path()));
    node.until_ready(|code, _| code == 200);
    assert!(folder.path().join("data").exists(), "data are where the unit lets it write");

    let changed = format!("{CONFIG}telemetry.log_filter = \"debug\"\n");
    fs::write(folder.path().join("kith.toml"), changed).unwrap();
    let mut reload = Command::new("sh");
    reload.args(["-c", &value("ExecReload")]).env("MAINPID", node.id().to_string()).stdin(Stdio::null());
    assert!(reload.status().unwrap().success());
    let reloaded = || node.logged().contains("telemetry.log_filter");
    block_until(PATIENCE, reloaded, || node.logged());

    signal(node.id(), &value("KillSignal").replace("SIG", "-"));
    let (code, _, logged) = node.ended();
    assert_eq!(code, Some(0), "on-failure would start it again: {logged}");
}

#[test]
fn unit_does_not_restart_what_cannot_begin() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kith.toml"), "listens = 1\n").unwrap();
    let (code, _, err) = output_of(start(folder.path()));
    assert_eq!(code.map(|code| code.to_string()), Some(value("RestartPreventExitStatus")), "{err}");
    assert_eq!(value("RestartPreventExitStatus"), kith_cli::NOT_STARTED.to_string());
    assert_eq!(value("Restart"), "on-failure", "another code starts it again");
}

#[test]
fn unit_leaves_time_and_files_to_a_node() {
    let config = Config::default();
    let stop: u64 = value("TimeoutStopSec").parse().unwrap();
    assert!(Duration::from_secs(stop) > config.drain_wait + config.drain, "killed after {stop} s");
    let files: usize = value("LimitNOFILE").parse().unwrap();
    assert!(files > config.limits.connections, "{files}");
}

#[test]
fn unit_takes_all_rights_away() {
    for (key, expected) in [
        ("User", "kith"),
        ("LimitCORE", "0"),
        ("CapabilityBoundingSet", ""),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("MemoryDenyWriteExecute", "yes"),
    ] {
        assert_eq!(value(key), expected, "{key}");
    }
}
