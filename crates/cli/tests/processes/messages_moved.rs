//! The messages of a conversation, moved from one node to another one.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::{killed::killed_midway, process::Node};
use serde_json::{Value, json};

fn kith(node: &Node, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    command.args(arguments).env("KITH_ADDR", format!("http://{}", node.grpc));
    command
}

fn call(node: &Node, method: &str, body: &Value) -> Value {
    let called = kith(node, &["call", method, &body.to_string(), "-o", "json"]).output().unwrap();
    assert!(called.status.success(), "{method}: {called:?}");
    json(&called)
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

fn told(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A node with the users 7 and 8 and their group 9, whose conversation is empty.
fn started() -> Node {
    let node = Node::start_with(tempfile::tempdir().unwrap(), &["messages.events=false"]);
    for id in [7, 8] {
        call(&node, "CreateUser", &json!({ "user": { "userId": id, "userName": format!("user{id}") } }));
    }
    call(&node, "CreateGroup", &json!({ "group": { "groupId": 9, "name": "Chess", "creatorId": 7 } }));
    call(&node, "AddMembers", &json!({ "groupId": 9, "userIds": [8] }));
    node
}

/// Sends so many messages to the group, of 7 and 8 by turns.
fn fill(node: &Node, count: usize) {
    for some in (1..=count).collect::<Vec<_>>().chunks(100) {
        let message = |number: &usize| {
            json!({
                "groupId": 9, "senderId": 7 + number % 2, "contentType": "text/plain", "body": "aGk=",
                "clientMessageId": format!("m-{number}"), "mentionIds": [8], "replyToSeq": number - 1,
            })
        };
        let messages: Vec<_> = some.iter().map(message).collect();
        call(node, "BatchSend", &json!({ "messages": messages }));
    }
}

fn exported(node: &Node, conversation: &str) -> String {
    let exported = kith(node, &["export", "messages", conversation]).output().unwrap();
    assert!(exported.status.success(), "{exported:?}");
    String::from_utf8(exported.stdout).unwrap()
}

fn import(node: &Node, file: &Path) -> Command {
    kith(node, &["import", "messages", file.to_str().unwrap(), "-o", "json"])
}

#[test]
fn killed_import_resumes_to_the_same_log() {
    let folder = tempfile::tempdir().unwrap();
    let (file, from, to) = (folder.path().join("g9.jsonl"), started(), started());
    fill(&from, 6_000);
    let export = ["export", "messages", "g9", file.to_str().unwrap(), "-o", "json"];
    let summary = kith(&from, &export).output().unwrap();
    let summary: Value = serde_json::from_slice(&summary.stderr).unwrap();
    assert_eq!(summary, json!({ "kind": "messages", "exported": 6_000 }));
    assert_eq!(fs::read_to_string(&file).unwrap(), exported(&from, "g9"));

    killed_midway(import(&to, &file), &file, 400);
    let resumed = import(&to, &file).output().unwrap();
    assert!(resumed.status.success(), "{resumed:?}");
    assert_eq!(json(&resumed)["bad"], 0);
    assert_eq!(exported(&to, "g9"), exported(&from, "g9"));

    let again = import(&to, &file).output().unwrap();
    let counts = json!({ "kind": "messages", "imported": 0, "already_there": 6_000, "bad": 0 });
    assert_eq!((again.status.code(), json(&again)), (Some(0), counts));
    let sent = call(&to, "SendMessage", &json!({ "groupId": 9, "senderId": 8, "contentType": "x" }));
    assert_eq!(sent["seq"], "6001", "the log goes on");
}

#[test]
fn other_message_under_a_number_is_a_bad_line() {
    let folder = tempfile::tempdir().unwrap();
    let (file, from, to) = (folder.path().join("g9.jsonl"), started(), started());
    fill(&from, 3);
    call(&to, "SendMessage", &json!({ "groupId": 9, "senderId": 8, "contentType": "x", "body": "aGk=" }));
    fs::write(&file, exported(&from, "g9")).unwrap();
    let imported = import(&to, &file).output().unwrap();
    let counts = json!({ "kind": "messages", "imported": 2, "already_there": 0, "bad": 1 });
    assert_eq!((imported.status.code(), json(&imported)), (Some(1), counts));
    let why = format!("{}:1: there is a message with this number", file.display());
    assert!(told(&imported).contains(&why), "{imported:?}");
}

/// The first line that cannot have its number ends the import: else all others were bad, too.
#[test]
fn line_that_leaves_a_gap_ends_the_import() {
    let folder = tempfile::tempdir().unwrap();
    let (file, from, to) = (folder.path().join("g9.jsonl"), started(), started());
    fill(&from, 3);
    let all = exported(&from, "g9");
    let lines: Vec<&str> = all.lines().collect();
    fs::write(&file, [lines[0], lines[2]].join("\n")).unwrap();
    let ended = import(&to, &file).output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let why = "the next message of g9 is number 2, not 3";
    assert!(told(&ended).contains(why) && told(&ended).contains("run it again to go on"), "{ended:?}");
    assert_eq!(exported(&to, "g9").lines().count(), 1);
    // What was missing is put in, and the import goes on.
    fs::write(&file, lines.join("\n")).unwrap();
    let again = kith(&to, &["import", "messages", file.to_str().unwrap(), "-o", "json", "--restart"]);
    let again = { again }.output().unwrap();
    assert_eq!(json(&again), json!({ "kind": "messages", "imported": 2, "already_there": 1, "bad": 0 }));
    assert_eq!(exported(&to, "g9"), all);
}

#[test]
fn absent_or_wrong_conversation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (file, from, empty) = (folder.path().join("g9.jsonl"), started(), Node::start());
    fill(&from, 2);
    for (conversation, why) in [("d8-7", "must have the smaller user id first"), ("g10", "no such")] {
        let refused = kith(&from, &["export", "messages", conversation]).output().unwrap();
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{refused:?}");
        assert!(told(&refused).contains(why), "{refused:?}");
    }
    fs::write(&file, exported(&from, "g9")).unwrap();
    let bad = import(&empty, &file).output().unwrap();
    assert_eq!((bad.status.code(), &json(&bad)["bad"]), (Some(1), &json!(2)), "{bad:?}");
    assert!(told(&bad).contains(":1: no such "), "{bad:?}");
}
