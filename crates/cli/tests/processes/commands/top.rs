//! `kith top`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{at, command, kith, user};
use crate::process::{Node, free_address};

/// In vain after it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A node at this address.
fn serve(dir: &Path, grpc: &str) -> Running {
    let mut serve = command(dir);
    serve.args(["serve", "--listen", grpc, "--set", "operations.enabled=false"]);
    Running(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn two_samples_are_two_lines_of_json_with_what_the_node_did() {
    let node = Node::start();
    user(&node, 7, "ada");
    let ended = thread::scope(|scope| {
        let watching = scope.spawn(|| at(&node, &["top", "-o", "json", "--count", "2", "--interval", "1s"]));
        while !watching.is_finished() {
            at(&node, &["call", "GetUser", r#"{"userId":7}"#]);
        }
        watching.join().unwrap()
    });
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    let samples: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(samples.len(), 2, "{ended:?}");
    let node = &samples[1]["nodes"][0];
    assert_eq!((node["state"].as_str(), node["trusted"].as_bool()), (Some("serving"), Some(true)));
    assert!(
        node["calls_per_second"].as_f64().unwrap() > 0.0 && node["p99_ms"].as_f64().unwrap() > 0.0,
        "{node}"
    );
    assert_eq!(node["memory_hit_rate"].as_f64(), Some(1.0), "{node}");
    let methods = node["methods"].as_array().unwrap();
    assert!(methods.iter().any(|one| one["method"] == "GetUser"), "{node}");
    assert!(node["namespaces"].as_array().unwrap().iter().any(|one| one["entries"] == 1), "{node}");
}

#[test]
fn plain_samples_have_one_header_and_a_row_for_each_node_also_for_one_that_is_away() {
    let (node, free) = (Node::start(), free_address());
    let both = format!("{},{free}", node.grpc);
    let watched = kith(["top", "--addr", &both, "--count", "2", "--interval", "200ms"]);
    let lines: Vec<_> = watched.out.lines().map(|line| line.split('\t').collect::<Vec<_>>()).collect();
    assert!(watched.code == 1 && lines.len() == 5, "{watched:?}");
    assert_eq!(lines[0][..4], ["time", "node", "state", "trusted"]);
    let rows: Vec<_> = lines[3..].iter().map(|row| (row[1], row[2])).collect();
    assert_eq!(rows, [(node.grpc.as_str(), "serving"), (free.as_str(), "unreachable")]);
    let away = kith(["top", "--addr", &free, "--count", "1"]);
    assert!(away.code == 2 && away.why().contains(&free) && away.why().contains("--addr"), "{away:?}");
    let often = kith(["top", "--interval", "10ms"]);
    assert!(often.code == 2 && often.err.contains("200ms to 60s"), "{often:?}");
}

#[test]
fn a_node_that_goes_away_is_shown_as_away_and_is_back_by_itself() {
    let (dir, grpc, other) = (tempfile::tempdir().unwrap(), free_address(), free_address());
    let node = serve(dir.path(), &grpc);
    let mut top = command(dir.path());
    // Two, so that it does not matter which is there first.
    top.args(["top", "-o", "json", "--interval", "200ms", "--addr", &grpc, "--addr", &other]);
    let mut top = Running(top.stdout(Stdio::piped()).spawn().unwrap());
    let (tell, states) = mpsc::channel();
    let out = BufReader::new(top.0.stdout.take().unwrap());
    thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let sample: Value = serde_json::from_str(&line).unwrap();
            if tell.send(sample["nodes"][0]["state"].as_str().unwrap().to_owned()).is_err() {
                return;
            }
        }
    });
    let until = |state: &str| {
        while states.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it never is {state}")) != state {}
    };
    until("serving");
    drop(node);
    until("unreachable");
    let _node = serve(dir.path(), &grpc);
    until("serving");
}

/// Runs `kith top` on a terminal of its own and does something once it is drawn. What it wrote, and its code.
fn on_a_terminal(node: &Node, act: impl FnOnce(&mut dyn std::io::Write, u32)) -> (String, Option<i32>) {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let program = env!("CARGO_BIN_EXE_kith");
    let line = format!(
        "stty rows 24 cols 80; echo $$ > {}; exec {program} top --addr {} --interval 200ms",
        pid.display(),
        node.grpc
    );
    let script = Command::new("script")
        .args(["-qfec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut script = Running(script.unwrap());
    let (mut keys, mut out) = (script.0.stdin.take().unwrap(), script.0.stdout.take().unwrap());
    let (tell, pieces) = mpsc::channel();
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = out.read(&mut piece) {
            tell.send(String::from_utf8_lossy(&piece[..length]).into_owned()).ok();
        }
    });
    let mut written = String::new();
    while !written.contains("serving") {
        written +=
            &pieces.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it is never drawn: {written:?}"));
    }
    act(&mut keys, fs::read_to_string(&pid).unwrap().trim().parse().unwrap());
    while let Ok(piece) = pieces.recv_timeout(PATIENCE) {
        written += &piece;
    }
    (written, script.0.wait().unwrap().code())
}

#[test]
fn the_terminal_is_as_it_was_after_a_key_control_c_and_a_signal() {
    let node = Node::start();
    let ends: [fn(&mut dyn std::io::Write, u32); 3] = [
        |keys, _| keys.write_all(b"q").unwrap(),
        |keys, _| keys.write_all(b"\x03").unwrap(),
        |_, pid| assert!(Command::new("kill").arg(pid.to_string()).status().unwrap().success()),
    ];
    for end in ends {
        let (written, code) = on_a_terminal(&node, end);
        let (entered, left) = (written.find("\x1b[?1049h"), written.rfind("\x1b[?1049l"));
        assert!(code == Some(0) && entered.is_some() && left > entered, "{code:?} {written:?}");
    }
}
