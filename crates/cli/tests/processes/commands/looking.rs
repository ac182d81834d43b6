//! Runs `kith status`, `inspect`, `check` and `ping`.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{at, command, kith, serve, silent, user};
use crate::{
    process::{Node, free_address},
    spawned::Started,
};

/// Starts a node whose store is away from the start. Returns its folder, too.
fn starting() -> (Started, tempfile::TempDir) {
    let (dir, mongodb) = (tempfile::tempdir().unwrap(), free_address());
    let uri = format!("store.mongodb.uri=mongodb://{mongodb}/");
    let node = Started::new(dir.path(), &["--set", "store.backend=cluster", "--set", &uri]);
    (node, dir)
}

/// Returns a node's hits, misses and entries for users, summed by the node itself.
fn figures(node: &Node) -> Value {
    let stats = at(node, &["call", "GetCacheStats"]).json();
    let users =
        stats["namespaces"].as_array().unwrap().iter().find(|one| one["namespace"] == "user").cloned();
    let users = users.unwrap();
    json!([users["hits"], users["misses"], users["entries"], users["weightBytes"]])
}

#[test]
fn status_has_a_row_for_an_unreachable_node() {
    let (node, free) = (Node::start(), free_address());
    let alone = at(&node, &["status"]);
    assert_eq!(alone.code, 0, "{alone:?}");
    assert!(alone.out.starts_with("node\tstate\tversion\tstore\tanswers\tepoch\t"), "{alone:?}");
    let both = kith(["status", "--addr", &node.grpc, "--addr", &free, "-o", "json"]);
    let rows = both.json();
    assert_eq!(
        (both.code, &rows[0]["state"], &rows[1]["state"]),
        (1, &json!("serving"), &json!("unreachable"))
    );
    assert_eq!((&rows[0]["store_answers"], &rows[0]["migrations_pending"]), (&json!(true), &json!(0)));
    assert!(rows[1]["error"].as_str().unwrap().contains("no node answers"), "{rows}");
    let away = kith(["status", "--addr", &free]);
    assert!(away.code == 2 && away.why().contains(&free) && away.why().contains("--addr"), "{away:?}");
}

#[test]
fn inspect_changes_no_figure_and_fills_nothing() {
    let node = Node::start();
    user(&node, 7, "ada");
    assert_eq!(at(&node, &["call", "FlushMemory"]).code, 0);
    let before = figures(&node);
    for _ in 0..3 {
        let inspected = at(&node, &["inspect", "user/7", "-o", "json"]);
        let (found, memory) = (inspected.json(), inspected.json()["copies"][0].clone());
        assert_eq!((inspected.code, &found["verdict"]), (0, &json!("same")), "{found}");
        assert_eq!((&memory["tier"], &memory["presence"]), (&json!("memory"), &json!("none")));
        assert_eq!(
            (&found["copies"][1]["presence"], &found["copies"][1]["version"]),
            (&json!("value"), &json!(1))
        );
    }
    assert_eq!(figures(&node), before);
    at(&node, &["call", "GetUser", r#"{"userId":7}"#]);
    assert_ne!(figures(&node), before, "while a read does");
}

#[test]
fn code_of_inspect_is_same_absent_or_differing() {
    let (one, other) = (Node::start(), Node::start());
    user(&one, 7, "ada");
    user(&other, 7, "ada");
    let both = ["inspect", "user/7", "--addr", &one.grpc, "--addr", &other.grpc, "-o", "json"];
    assert_eq!(kith(both).code, 0);
    let change = r#"{"user":{"userId":7,"nickName":"Countess"},"updateMask":"nickName"}"#;
    assert_eq!(at(&other, &["call", "UpdateUser", change]).code, 0);
    let differing = kith(both);
    assert_eq!((differing.code, &differing.json()["verdict"]), (4, &json!("differing")));
    assert_eq!(at(&one, &["inspect", "user/8"]).code, 3);
    for key in ["user", "user/x", "nothing/7"] {
        let refused = at(&one, &["inspect", key]);
        assert!(refused.code == 2 && refused.why().contains("for example user/7"), "{refused:?}");
    }
    let (free, found) = (free_address(), "kith: no node answers at");
    let half = kith(["inspect", "user/7", "--addr", &one.grpc, "--addr", &free, "--wait", "0s"]);
    assert!(
        half.code == 1 && half.err.starts_with(found) && half.out.contains("\tstore\tvalue\t1\t"),
        "{half:?}"
    );
}

#[test]
fn conversation_is_inspected_with_its_log() {
    let node = Node::start();
    user(&node, 7, "ada");
    let of = |id: &str| at(&node, &["inspect", &format!("conversation/{id}"), "-o", "json"]);
    let unknown = of("g9").json();
    assert_eq!((&unknown["verdict"], &unknown["log"]["exists"]), (&json!("absent"), &json!(false)));
    assert_eq!((&unknown["log"]["max_seq"], &unknown["log"]["documents"]), (&json!(0), &json!(0)));
    let send = r#"{"userId":7,"senderId":7,"contentType":"text/plain","body":"c2VjcmV0"}"#;
    assert_eq!(at(&node, &["call", "SendMessage", send]).code, 0);
    assert_eq!(at(&node, &["call", "SendMessage", send]).code, 0);
    let trim = r#"{"conversationId":"d7-7","minSeq":2}"#;
    assert_eq!(at(&node, &["call", "TrimConversation", trim]).code, 0);
    let inspected = of("d7-7");
    let (found, mut log) = (inspected.json(), inspected.json()["log"].clone());
    assert_eq!((inspected.code, &found["verdict"]), (0, &json!("same")), "{found}");
    assert!(log["last_time"].take().as_str().unwrap().ends_with('Z'), "{found}");
    // The upkeep may have run already.
    assert!(log["trim"].take().is_boolean(), "{found}");
    let expected = json!({
        "exists": true, "max_seq": 2, "last_time": null, "first_seq": 1, "documents": 1, "min_seq": 2, "trim": null,
    });
    assert_eq!(log, expected);
    let plain = at(&node, &["inspect", "conversation/d7-7"]);
    assert!(plain.out.contains("\nmax_seq\t2\n") && plain.out.contains("\tstore\tvalue\t"), "{plain:?}");
    for out in [&inspected.out, &plain.out] {
        assert!(!out.contains("secret") && !out.contains("c2Vj"), "{out}");
    }
    let refused = at(&node, &["inspect", "conversation/d8-7"]);
    assert!(refused.code == 2 && refused.why().contains("for example user/7"), "{refused:?}");
}

#[test]
fn dialog_is_inspected() {
    let node = Node::start();
    user(&node, 7, "ada");
    let dialog = ["inspect", "dialog/7,d7-7", "-o", "json"];
    assert_eq!(at(&node, &dialog).code, 3);
    let pin = r#"{"userId":7,"conversationId":"d7-7","settings":{"pinned":true},"updateMask":"pinned"}"#;
    assert_eq!(at(&node, &["call", "UpdateDialog", pin]).code, 0);
    let found = at(&node, &dialog);
    assert_eq!((found.code, &found.json()["verdict"]), (0, &json!("same")), "{found:?}");
    assert_eq!(found.json()["log"], json!(null), "a dialog has no log");
    for wrong in ["dialog/7", "dialog/7,x9", "dialog/d7-7,7"] {
        assert_eq!(at(&node, &["inspect", wrong]).code, 2, "{wrong}");
    }
}

#[test]
fn check_prints_values_and_exits_by_the_worst() {
    let node = Node::start();
    let well = at(&node, &["check"]);
    assert_eq!(well.code, 0, "{well:?}");
    assert!(well.out.contains("\ncalls_used\tok\t0.0002\t0.7\t0.9\n"), "{well:?}");
    assert_eq!(at(&node, &["check", "--warn", "calls_used=0.0001"]).code, 1);
    let critical = at(&node, &["check", "--critical", "calls_used=0.0001", "-o", "json"]);
    assert_eq!((critical.code, &critical.json()["level"]), (2, &json!("critical")));
    let free = free_address();
    let away = kith(["check", "--addr", &free]);
    assert!(away.code == 2 && away.out.contains("node\tcritical\tunreachable"), "{away:?}");
    assert_eq!(kith(["check", "--addr", &free, "--node-away-is", "warning"]).code, 1);
    let unknown = at(&node, &["check", "--warn", "calls=1"]);
    assert!(unknown.code == 2 && unknown.err.contains("calls_used"), "{unknown:?}");
}

#[test]
fn ping_distinguishes_serving_from_silent_nodes() {
    let node = Node::start();
    let pong = at(&node, &["ping", "-o", "json"]);
    assert_eq!((pong.code, &pong.json()["state"]), (0, &json!("serving")));
    assert!(pong.json()["round_trip_ms"].as_f64().unwrap() > 0.0);
    let (_listener, address) = silent();
    let lost = kith(["ping", "--addr", &address, "--timeout", "200ms"]);
    assert!(lost.code == 2 && lost.why().contains(&address), "{lost:?}");
}

#[cfg(feature = "cluster")]
#[test]
fn node_that_waits_for_its_store_is_starting() {
    let (node, _dir) = starting();
    let grpc = node.grpc();
    let pong = kith(["ping", "--addr", &grpc]);
    assert!(pong.code == 1 && pong.out.contains("not_serving"), "{pong:?}");
    let status = kith(["status", "--addr", &grpc, "-o", "json"]);
    assert_eq!((status.code, &status.json()[0]["state"]), (1, &json!("starting")));
    let check = kith(["check", "--addr", &grpc]);
    assert!(check.code == 2 && check.out.contains("serving\tcritical\tstarting"), "{check:?}");
}

#[test]
fn command_waits_for_a_node_that_starts() {
    let (dir, grpc) = (tempfile::tempdir().unwrap(), free_address());
    let mut nodes = command(dir.path());
    nodes.args(["nodes", "--addr", &grpc, "--wait", "20s"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let nodes = nodes.spawn().unwrap();
    let _serving = serve(dir.path(), &["--listen", &grpc, "--set", "operations.enabled=false"]);
    let output = nodes.wait_with_output().unwrap();
    let (out, err) = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).into();
    assert_eq!((output.status.code(), out.lines().count()), (Some(0), 2), "{out}{err}");
}

#[test]
fn node_without_store_is_waited_for_as_asked() {
    let (node, _dir) = starting();
    let begun = Instant::now();
    let refused = kith(["nodes", "--addr", &node.grpc(), "--wait", "200ms"]);
    assert!(begun.elapsed() >= Duration::from_millis(200), "{refused:?}");
    assert!(refused.code == 2 && refused.why().contains("is starting"), "{refused:?}");
}
