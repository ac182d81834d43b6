//! Runs `kith top` on a terminal and in a pipe.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{at, command, kith, serve, user};
use crate::{
    process::{Node, free_address},
    spawned::{KilledOnDrop, signal},
    terminal::Terminal,
};

/// The test fails after this time.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn two_samples_are_two_lines_of_json() {
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
fn plain_samples_have_one_header_and_all_nodes() {
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
fn unreachable_node_comes_back_by_itself() {
    let (dir, grpc, other) = (tempfile::tempdir().unwrap(), free_address(), free_address());
    let flags = ["--listen", &grpc, "--set", "operations.enabled=false"];
    let node = serve(dir.path(), &flags);
    let mut top = command(dir.path());
    // Two nodes are watched, so that it does not matter which is there first.
    top.args(["top", "-o", "json", "--interval", "200ms", "--addr", &grpc, "--addr", &other]);
    let mut top = KilledOnDrop(top.stdout(Stdio::piped()).spawn().unwrap());
    let (sender, states) = mpsc::channel();
    let out = BufReader::new(top.0.stdout.take().unwrap());
    thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let sample: Value = serde_json::from_str(&line).unwrap();
            if sender.send(sample["nodes"][0]["state"].as_str().unwrap().to_owned()).is_err() {
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
    let _node = serve(dir.path(), &flags);
    until("serving");
}

/// Runs `kith top` for a node, and waits until it is drawn.
fn on_a_terminal(node: &Node) -> Terminal {
    let mut terminal = Terminal::start(24, 80, &format!("top --addr {} --interval 200ms", node.grpc));
    terminal.until_text("healthy");
    terminal
}

#[test]
fn terminal_is_restored_by_q_ctrl_c_and_sigterm() {
    let node = Node::start();
    let ends: [fn(&mut Terminal); 3] = [
        |terminal| terminal.press("q"),
        |terminal| terminal.press("\x03"),
        |terminal| signal(terminal.pid(), "-TERM"),
    ];
    for end in ends {
        let mut terminal = on_a_terminal(&node);
        end(&mut terminal);
        let code = terminal.ended();
        let written = &terminal.written;
        let (entered, left) = (written.find("\x1b[?1049h"), written.rfind("\x1b[?1049l"));
        assert!(code == Some(0) && entered.is_some() && left > entered, "{code:?} {written:?}");
    }
}

#[test]
fn keys_pause_show_details_and_help_and_go_back() {
    let node = Node::start();
    let mut terminal = on_a_terminal(&node);
    for (key, text) in [
        ("p", "paused"),
        ("?", "pause, resume"),
        ("x", "calls/s of"),
        ("d", "store answers yes"),
        ("\x1b", "calls/s of"),
        ("\r", "store answers yes"),
    ] {
        terminal.press(key);
        terminal.until_text(text);
    }
    terminal.press(" ");
    terminal.until(|screen| !screen.contents().contains("paused"));
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
}
