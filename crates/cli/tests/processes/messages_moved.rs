//! A conversation's messages are moved from one node to another.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use std::{fs, path::Path};

use crate::{
    commands::{CommandOutput, at, command_at},
    killed::killed_midway,
    process::Node,
};
use serde_json::{Value, json};

fn call(node: &Node, method: &str, body: &Value) -> Value {
    let called = at(node, &["call", method, &body.to_string(), "-o", "json"]);
    assert_eq!(called.code, 0, "{method}: {called:?}");
    called.json()
}

/// Starts a node with the users 7 and 8 and their group 9, whose conversation is empty.
fn started() -> Node {
    let node = Node::start_with(tempfile::tempdir().unwrap(), &["messages.events=false"]);
    for id in [7, 8] {
        call(&node, "CreateUser", &json!({ "user": { "userId": id, "userName": format!("user{id}") } }));
    }
    call(&node, "CreateGroup", &json!({ "group": { "groupId": 9, "name": "Chess", "creatorId": 7 } }));
    call(&node, "AddMembers", &json!({ "groupId": 9, "userIds": [8] }));
    node
}

/// Sends `count` messages to the group; 7 and 8 take turns.
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
    let exported = at(node, &["export", "messages", conversation]);
    assert_eq!(exported.code, 0, "{exported:?}");
    exported.out
}

fn import(node: &Node, file: &Path) -> CommandOutput {
    at(node, &["import", "messages", file.to_str().unwrap(), "-o", "json"])
}

#[test]
fn killed_import_resumes_to_the_same_log() {
    let folder = tempfile::tempdir().unwrap();
    let (file, from, to) = (folder.path().join("g9.jsonl"), started(), started());
    fill(&from, 6_000);
    let export = ["export", "messages", "g9", file.to_str().unwrap(), "-o", "json"];
    let summary: Value = serde_json::from_str(&at(&from, &export).err).unwrap();
    assert_eq!(summary, json!({ "kind": "messages", "exported": 6_000 }));
    assert_eq!(fs::read_to_string(&file).unwrap(), exported(&from, "g9"));

    killed_midway(command_at(&to, &["import", "messages", file.to_str().unwrap()]), &file, 400);
    let resumed = import(&to, &file);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert_eq!(resumed.json()["bad"], 0);
    assert_eq!(exported(&to, "g9"), exported(&from, "g9"));

    let again = import(&to, &file);
    let counts = json!({ "kind": "messages", "imported": 0, "already_there": 6_000, "bad": 0 });
    assert_eq!((again.code, again.json()), (0, counts));
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
    let imported = import(&to, &file);
    let counts = json!({ "kind": "messages", "imported": 2, "already_there": 0, "bad": 1 });
    assert_eq!((imported.code, imported.json()), (1, counts));
    let why = format!("{}:1: there is a message with this number", file.display());
    assert!(imported.err.contains(&why), "{imported:?}");
}

/// The first line that cannot have its number ends the import: otherwise all later lines would be bad, too.
#[test]
fn line_that_leaves_a_gap_ends_the_import() {
    let folder = tempfile::tempdir().unwrap();
    let (file, from, to) = (folder.path().join("g9.jsonl"), started(), started());
    fill(&from, 3);
    let all = exported(&from, "g9");
    let lines: Vec<&str> = all.lines().collect();
    fs::write(&file, [lines[0], lines[2]].join("\n")).unwrap();
    let ended = import(&to, &file);
    assert_eq!(ended.code, 2, "{ended:?}");
    let why = "the next message of g9 is number 2, not 3";
    assert!(ended.err.contains(why) && ended.err.contains("run it again to go on"), "{ended:?}");
    assert_eq!(exported(&to, "g9").lines().count(), 1);
    // The missing messages are added, and the import goes on.
    fs::write(&file, lines.join("\n")).unwrap();
    let again = at(&to, &["import", "messages", file.to_str().unwrap(), "-o", "json", "--restart"]);
    assert_eq!(again.json(), json!({ "kind": "messages", "imported": 2, "already_there": 1, "bad": 0 }));
    assert_eq!(exported(&to, "g9"), all);
}

#[test]
fn absent_or_wrong_conversation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (file, from, empty) = (folder.path().join("g9.jsonl"), started(), Node::start());
    fill(&from, 2);
    for (conversation, why) in [("d8-7", "must have the smaller user id first"), ("g10", "no such")] {
        let refused = at(&from, &["export", "messages", conversation]);
        assert_eq!((refused.code, refused.out.len()), (2, 0), "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
    fs::write(&file, exported(&from, "g9")).unwrap();
    let bad = import(&empty, &file);
    assert_eq!((bad.code, &bad.json()["bad"]), (1, &json!(2)), "{bad:?}");
    assert!(bad.err.contains(":1: no such "), "{bad:?}");
}
