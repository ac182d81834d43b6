//! Callers' keys in the program: `kith keys` makes them, a node accepts them, commands send them, and no
//! output shows them.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use sha2::Digest as _;

use crate::{
    polls::block_until,
    rotation::{Pace, keys_are_swapped_under_load},
    spawned::{self, FREE, Started, kith, output_of},
};

const PATIENCE: Duration = Duration::from_secs(20);
const CHOSEN: &str = "correct-horse-battery-staple-one-key";
/// Addresses that other machines can reach, on any free ports.
const REACHED: [&str; 5] =
    ["--listen", "0.0.0.0:0", "--insecure-listen", "--set", "operations.listen=127.0.0.1:0"];

fn run(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    output_of(kith(dir, arguments))
}

fn json(dir: &Path, arguments: &[&str]) -> Value {
    let (code, out, err) = run(dir, &[arguments, &["-o", "json"]].concat());
    assert_eq!(code, Some(0), "{arguments:?}: {err}");
    serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}"))
}

/// Returns the single line with which a node is refused.
#[track_caller]
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let line = spawned::refused(kith(dir, arguments));
    assert!(!line.contains("horse"), "{line}");
    line
}

/// A command waits for a node that starts, without asking for data that its caller may not see.
#[test]
fn call_without_admin_scope_is_no_security_event() {
    let dir = tempfile::tempdir().unwrap();
    let scopes = ["--scopes", "user:read,user:own", "--file", "callers.toml"];
    let (code, key, errors) =
        run(dir.path(), &[&["keys", "create", "reader"][..], &scopes, &["-o", "plain"]].concat());
    assert_eq!(code, Some(0), "{errors}");
    let key = key.split_whitespace().find(|word| word.starts_with("kith_")).unwrap();
    fs::write(dir.path().join("reader.key"), key).unwrap();
    fs::set_permissions(dir.path().join("reader.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let node = Started::new(dir.path(), &["--set", "auth.callers_file=callers.toml"]);
    let target = ["--addr", &node.url(), "--api-key-file", "reader.key"];
    let called = run(dir.path(), &[&["call", "UserService/GetUser", "{\"userId\":7}"][..], &target].concat());
    assert!(called.2.contains("NOT_FOUND"), "{called:?}");
    assert_eq!(node.figure("kith_auth_refused_total{cause=\"scope\"}"), 0, "{}", node.logged());
    let (_, _, logged) = node.terminate();
    assert!(!logged.contains("calls_refused"), "{logged}");
}

/// Waits until the node has logged this.
fn until_logged(node: &Started, words: &str) {
    block_until(PATIENCE, || node.logged().contains(words), || node.logged());
}

#[test]
fn reachable_node_without_caller_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let line = refused(dir.path(), &REACHED);
    assert!(
        line.contains("can be reached by other machines") && line.contains("kith keys generate"),
        "{line}"
    );
    assert!(!dir.path().join("data").exists(), "nothing was begun");
    run(dir.path(), &["keys", "generate", "--file", "kith.key"]);
    let mut command = kith(dir.path(), &REACHED);
    command.env("KITH_API_KEY_FILE", "kith.key");
    let node = Started::of(command);
    let callers = &node.banner["security"]["callers"];
    assert_eq!((&callers["mode"], &callers["count"]), (&"keys".into(), &1.into()));
    assert_eq!(node.readyz().1["reasons"], serde_json::json!([]));
}

#[test]
fn insecure_callers_are_allowed_and_visible() {
    let dir = tempfile::tempdir().unwrap();
    let node = Started::of(kith(dir.path(), &[&REACHED[..], &["--set", "insecure_callers=true"]].concat()));
    assert_eq!(node.banner["security"]["callers"]["mode"], "insecure");
    assert_eq!(node.readyz().1["reasons"][0]["reason"], "insecure_callers");
    assert_eq!(node.figure("kith_insecure_callers"), 1);
    until_logged(&node, "may do everything (insecure_callers)");
}

#[test]
fn weak_or_contradicting_keys_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("weak", "REPLACE_ME"), ("empty", ""), ("good", CHOSEN), ("callers.toml", "\n")] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let set = |values: &[&'static str]| {
        let sets = values.iter().flat_map(|value| ["--set", *value]);
        refused(dir.path(), &FREE.into_iter().chain(sets).collect::<Vec<_>>())
    };
    for (values, words) in [
        (&["api_key_file=weak"][..], "api_key_file: weak:1: the key is one of an example"),
        (&["api_key_file=empty"], "api_key_file: empty is empty"),
        (&["api_key_file=absent"], "api_key_file: there is no file absent"),
        (&["auth.callers_file=callers.toml"], "auth.callers_file: callers.toml:1: has no [[caller]]"),
        (&["api_key=short"], "api_key has fewer than 32 characters"),
        (&["api_key_file=good", "insecure_callers=true"], "insecure_callers lets everybody call"),
        (&["api_key_file=good", "ws.enabled=true", "ws.trusted=true"], "ws.trusted lets every socket"),
        (&["api_key_file=good", "api_key=correct-horse-battery-staple-two"], "are both given"),
    ] {
        let line = set(values);
        assert!(line.contains(words), "{values:?}: {line}");
    }
}

#[test]
fn callers_change_and_a_wrong_file_is_visible() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("callers.toml");
    let create = |name: &str| {
        json(
            dir.path(),
            &["keys", "create", name, "--scopes", "backend,presence:own", "--file", "callers.toml"],
        )
    };
    let first = create("chat")["id"].as_str().unwrap().to_owned();
    let settings = ["--set", "auth.callers_file=callers.toml", "--set", "auth.read_again_every=50ms"];
    // Security events are logged even with `--log off`.
    let node = Started::new(dir.path(), &[&settings[..], &["--log", "off"]].concat());
    let second = create("jobs")["id"].as_str().unwrap().to_owned();
    let event = |id: &str, event: &str| {
        let line = |line: &str| line.contains(id) && line.contains(event);
        node.logged().lines().any(line)
    };
    block_until(PATIENCE, || event(&second, "caller_added"), || "the new key is not valid");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("backend", "bakend")).unwrap();
    let answer = node.until_ready(|_, body| body["reasons"][0]["reason"] == "callers_not_reloaded");
    let message = answer["reasons"][0]["message"].as_str().unwrap();
    assert!(message.contains("callers.toml:3") && message.contains("did you mean `backend`?"), "{message}");
    assert_eq!(node.figure("kith_callers_not_reloaded"), 1);
    fs::write(&file, text).unwrap();
    node.until_ready(|code, body| code == 200 && body["reasons"] == serde_json::json!([]));
    json(dir.path(), &["keys", "revoke", &first, "--file", "callers.toml"]);
    let has_ended = || event(&first, "caller_changed") || event(&first, "caller_removed");
    block_until(PATIENCE, has_ended, || "the revoked key is valid");
    assert!(event(&first, "keys_ended") && !event(&second, "keys_ended"));
}

/// The node looks at its files more often than by default.
#[tokio::test(flavor = "multi_thread")]
async fn keys_swapped_under_load_are_right_each_time() {
    let bound = Duration::from_secs(5);
    keys_are_swapped_under_load(Pace {
        read_again_every: "100ms",
        swaps: 10,
        kept: 8,
        added: bound,
        removed: bound,
        streams: PATIENCE,
    })
    .await;
}

#[test]
fn sighup_reads_callers_and_reports_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kith.key");
    fs::write(&file, CHOSEN).unwrap();
    let node =
        Started::new(dir.path(), &["--set", "api_key_file=kith.key", "--set", "auth.read_again_every=1h"]);
    fs::write(&file, "correct-horse-battery-staple-two-key\n").unwrap();
    node.hang_up();
    until_logged(&node, "SIGHUP: taken on: the files of callers");
    fs::write(&file, "").unwrap();
    node.hang_up();
    until_logged(&node, "refused: api_key_file: kith.key is empty");
}

/// Covers threat A87.
#[test]
fn no_output_of_a_node_or_a_command_has_a_key() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &["keys", "generate", "--file", "kith.key"]);
    let of_file = fs::read_to_string(dir.path().join("kith.key")).unwrap().trim_end().to_owned();
    for (variable, value, key) in
        [("KITH_API_KEY_FILE", "kith.key", of_file.as_str()), ("KITH_API_KEY", CHOSEN, CHOSEN)]
    {
        let all = ["--log", "trace", "--set", "telemetry.library_lines=true"];
        let mut command = kith(dir.path(), &[&FREE[..], &all].concat());
        command.env(variable, value);
        let node = Started::of(command);
        let addr = node.url();
        let command_line = fs::read(format!("/proc/{}/cmdline", node.id())).unwrap();
        let mut seen = vec![node.banner.to_string(), String::from_utf8(command_line).unwrap()];
        // The key is cut, so that it is refused: the error and the log must not contain any part.
        let cut = format!("authorization: Bearer {}", &key[..key.len() - 1]);
        for header in [&format!("authorization: Bearer {key}"), &cut, &cut] {
            let url = format!("{addr}/kith.user.v1.UserService/GetUser");
            let post =
                ["-sS", "-H", "content-type: application/json", "-H", header, "-d", "{\"userId\":1}", &url];
            let answer = Command::new("curl").args(post).output().unwrap();
            seen.push(String::from_utf8(answer.stdout).unwrap());
        }
        assert!(seen[2].contains("NOT_FOUND") && seen[3].contains("CREDENTIALS_REFUSED"), "{seen:?}");
        seen.push(node.metrics());
        seen.push(node.readyz().1.to_string());
        for arguments in [
            &["config"][..],
            &["config", "-o", "json"],
            &["call", "--addr", &addr, "GetUser", "{\"userId\":1}"],
            &["status", "--addr", &addr, "-o", "json"],
            &["check", "--addr", &addr],
            &["keys", "list", "--file", "kith.key"],
            &["doctor"],
        ] {
            let mut command = kith(dir.path(), arguments);
            command.env(variable, value);
            let (_, out, err) = output_of(command);
            seen.extend([out, err]);
        }
        let log = node.terminate().2;
        assert!(log.contains("event=\"calls_refused\""), "what was not logged yet is, at the end: {log}");
        seen.push(log);
        let digest: String = sha2::Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [key, &key[..key.len() - 1], &digest];
        for text in seen {
            assert!(!parts.iter().any(|part| text.contains(part)), "{variable}: {text}");
        }
    }
}

#[test]
fn generate_makes_a_key_once_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let made = json(dir.path(), &["keys", "generate", "--file", "kith.key"]);
    let file = dir.path().join("kith.key");
    let key = fs::read_to_string(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!made.to_string().contains(key.trim_end()), "{made}");
    let line = refused(dir.path(), &["keys", "generate", "--file", "kith.key"]);
    assert!(line.contains("kith.key exists"), "{line}");
    let (code, ..) = run(dir.path(), &["keys", "generate", "--file", "kith.key", "--if-missing"]);
    assert_eq!((code, fs::read_to_string(&file).unwrap()), (Some(0), key.clone()));
    let (code, printed, _) = run(dir.path(), &["keys", "generate"]);
    assert!(code == Some(0) && printed.starts_with("kith_") && printed.len() == key.len(), "{printed}");
    assert_ne!(printed, key);
}

#[test]
fn created_key_is_in_its_file_as_digest_alone() {
    let dir = tempfile::tempdir().unwrap();
    let create =
        ["keys", "create", "chat", "--scopes", "backend", "--expires", "180d", "--file", "callers.toml"];
    let made = json(dir.path(), &create);
    let key = made["key"].as_str().unwrap();
    let file = fs::read_to_string(dir.path().join("callers.toml")).unwrap();
    assert!(!file.contains(key) && file.contains("expires = "), "{file}");
    let check = |input: &str, arguments: &[&str]| {
        let mut command = kith(dir.path(), &[&["keys", "check"], arguments].concat());
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        std::io::Write::write_all(&mut process.stdin.take().unwrap(), input.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, printed) = check(&format!("{key}\n"), &["--file", "callers.toml"]);
    assert!(code == Some(0) && printed.contains("chat") && !printed.contains(key), "{printed}");
    assert_eq!(check(&key[..key.len() - 1], &[]).0, Some(1), "cut");
    assert_eq!(check(CHOSEN, &[]).0, Some(0));
    assert_eq!(check(CHOSEN, &["--file", "callers.toml"]).0, Some(1), "of no caller");
    let listed = json(dir.path(), &["keys", "list", "--file", "callers.toml"]);
    assert_eq!((&listed[0]["caller"], &listed[0]["id"]), (&made["caller"], &made["id"]));
    let line = refused(dir.path(), &["keys", "revoke", "chat", "--file", "callers.toml"]);
    assert!(line.contains("no key left"), "{line}");
    let line = refused(dir.path(), &["keys", "create", "x", "--scopes", "bakend", "--file", "callers.toml"]);
    assert!(line.contains("did you mean `backend`?"), "{line}");
    let (code, lines, key) = run(dir.path(), &["keys", "create", "jobs", "--scopes", "service", "--print"]);
    assert!(code == Some(0) && lines.starts_with("[[caller]]\n") && key.contains("kith_"), "{lines} {key}");
    assert_eq!(fs::read_to_string(dir.path().join("callers.toml")).unwrap(), file, "it is as it was");
}

#[test]
fn key_is_not_sent_in_plaintext_or_by_ping() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kith.key"), CHOSEN).unwrap();
    let call =
        ["call", "--addr", "http://203.0.113.7:7600", "--timeout", "200ms", "GetUser", "{\"userId\":1}"];
    let line = refused(dir.path(), &[&call[..], &["--api-key-file", "kith.key"]].concat());
    assert!(line.contains("in plaintext") && line.contains("--insecure"), "{line}");
    let mut ping = kith(dir.path(), &["ping", "--addr", "127.0.0.1:1"]);
    ping.env("KITH_API_KEY_FILE", "absent.key");
    let (_, _, err) = output_of(ping);
    assert!(err.contains("no node answers") && !err.contains("absent.key"), "it looks for no key: {err}");
}
