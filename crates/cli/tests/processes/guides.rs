//! Runs every line of the pages in `docs/guide` and compares what it prints, as `tour.rs` does.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use crate::{
    process::{self, Node},
    spawned::Started,
    tour::{Stage, steps},
};

const CHAT: &str = "docs/guide/chat.md";
const SERVE: &str = "kith serve ";

/// Makes the state that the pages assume: five users, of whom three have read the first message in their
/// group.
const STATE: [&str; 8] = [
    r#"for id in 7 8 9 10 11; do kith call CreateUser "{\"user\": {\"userId\": $id, \"userName\": \"user$id\"}}"; done"#,
    r#"kith call CreateGroup '{"group": {"groupId": 9, "name": "Readers", "creatorId": 7}}'"#,
    r#"kith call AddMembers '{"groupId": 9, "userIds": [8, 9, 10, 11]}'"#,
    r#"kith call SendMessage '{"groupId": 9, "senderId": 7, "contentType": "text/plain", "body": "aGk="}'"#,
    r#"kith call MessageService/MarkRead '{"userId": 8, "conversationId": "g9", "upTo": 2}'"#,
    r#"kith call MessageService/MarkRead '{"userId": 9, "conversationId": "g9", "upTo": 2}'"#,
    r#"kith call MessageService/MarkRead '{"userId": 10, "conversationId": "g9", "upTo": 2}'"#,
    r#"kith call GetReadSeqs '{"userId": 10, "conversationIds": ["g9"]}' | grep readSeq"#,
];

/// The page of a chat, which begins in an empty folder, without a node.
#[test]
#[ignore = "needs grpcurl: run cargo xtask test"]
fn tour_of_chat_page_prints_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(process::root().join(CHAT)).unwrap();
    let mut stage = Stage::new(folder.path().to_owned());
    let mut node = None;
    let steps = steps(&page);
    assert!(steps.len() > 20, "the page has only {} steps", steps.len());
    for step in &steps {
        if let Some(flags) = step.command.strip_prefix(SERVE) {
            let started = Started::new(folder.path(), &flags.split(' ').collect::<Vec<_>>());
            started.until_ready(|code, _| code == 200);
            stage.calls(&started.grpc(), &started.operations());
            node = Some(started);
        } else {
            stage.run(step);
        }
    }
    assert!(node.is_some(), "the page starts no node");
}

/// The other pages, on one node that has what they name.
#[test]
#[ignore = "needs grpcurl: run cargo xtask test"]
fn tours_of_guide_print_what_they_say() {
    let node = Node::start_with(tempfile::tempdir().unwrap(), &["changes.kept=3d"]);
    let mut stage = Stage::new(process::root());
    stage.calls(&node.grpc, &node.operations);
    for command in STATE {
        let printed = stage.print(command);
        assert!(printed.starts_with('{'), "{command}: {printed}");
    }
    let mut followed = 0;
    for entry in fs::read_dir(process::root().join("docs/guide")).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with(CHAT) {
            continue;
        }
        for step in &steps(&fs::read_to_string(&path).unwrap()) {
            stage.run(step);
            followed += 1;
        }
    }
    assert!(followed > 8, "the guide has only {followed} lines to run");
}
