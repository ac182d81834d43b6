//! Twenty thousand follows are imported as an edge list, killed midway and run again; and follows are
//! imported as JSON.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    commands::{CommandOutput, at, command_at},
    killed::killed_midway,
    process::Node,
};
use serde_json::{Value, json};

const USERS: usize = 200;
/// Each user follows the next 100 users.
const EACH: usize = 100;

fn import(node: &Node, file: &Path) -> CommandOutput {
    at(node, &["import", "follows", file.to_str().unwrap(), "-o", "json"])
}

/// Writes a graph in its published form, with two lines that are no edges.
fn graph(folder: &Path) -> PathBuf {
    let mut text = "# Directed graph\n# FromNodeId\tToNodeId\n".to_owned();
    for user in 0..USERS {
        for step in 1..=EACH {
            writeln!(text, "{}\t{}", 1 + user, 1 + (user + step) % USERS).unwrap();
        }
    }
    text += "1 two 3\n5 5\n";
    let file = folder.join("graph.txt");
    fs::write(&file, text).unwrap();
    file
}

fn counts(node: &Node, user: usize) -> Value {
    let request = format!(r#"{{"userId":{user}}}"#);
    at(node, &["call", "CountRelations", &request, "-o", "json"]).json()
}

#[test]
fn killed_import_of_follows_resumes_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let (file, node) = (graph(folder.path()), Node::start());
    killed_midway(command_at(&node, &["import", "follows", file.to_str().unwrap()]), &file, 4_000);
    let resumed = import(&node, &file);
    let (lines, follows) = (resumed.notes(), USERS * EACH);
    let expected = json!({"kind": "follows", "imported": follows, "already_there": 0, "bad": 2});
    assert_eq!((resumed.code, resumed.json()), (1, expected), "{lines:?}");
    assert!(lines[0].contains("going on behind line"), "{lines:?}");
    let bad = |number: usize, why: &str| {
        let line = format!("{}:{number}: ", file.display());
        let is_bad = |note: &&str| note.starts_with(&line) && note.contains(why);
        assert!(lines.iter().any(is_bad), "{line}{why}: {lines:?}");
    };
    bad(follows + 3, "neither JSON nor two user ids");
    bad(follows + 4, "must be another user");

    for user in [1, 77, USERS] {
        let counts = counts(&node, user);
        assert_eq!(
            (&counts["following"], &counts["fans"]),
            (&json!(EACH.to_string()), &json!(EACH.to_string()))
        );
    }
    let compared = at(&node, &["edges", "verify", "-o", "json"]).json();
    assert_eq!((&compared["checked"], &compared["differences"]), (&json!(3 * follows), &json!(0)));
}

#[test]
fn follows_in_json_keep_their_time() {
    let folder = tempfile::tempdir().unwrap();
    let (file, node) = (folder.path().join("follows.jsonl"), Node::start());
    let lines = [
        r#"{"userId":"1","targetId":"2","followTime":"2020-02-02T02:02:02Z"}"#,
        r#"{"user_id":1,"target_id":3}"#,
        r#"{"userId":"1","targetId":4.0,"followTime":"soon"}"#,
    ];
    fs::write(&file, lines.join("\n")).unwrap();
    for _ in 0..2 {
        let imported = import(&node, &file);
        assert_eq!(imported.json(), json!({"kind": "follows", "imported": 2, "already_there": 0, "bad": 1}));
        let why = "follow_time must be a time such as \"2026-01-31T12:00:00Z\"";
        let bad = format!("{}:3: {why}", file.display());
        assert_eq!((imported.code, imported.notes()), (1, vec![bad.as_str()]));
    }
    let request = r#"{"userId":1,"targetId":2}"#;
    let relation = at(&node, &["call", "GetRelation", request, "-o", "json"]).json();
    assert_eq!(relation["relation"]["follow"]["followTime"], "2020-02-02T02:02:02Z");
}

/// The columns are those in a Mastodon export, `following_accounts.csv`, with user ids before them.
#[test]
fn table_with_header_and_quotes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (file, node) = (folder.path().join("following.csv"), Node::start());
    let rows = [
        "User id,\"Target id\",Account address,Show boosts,Notify on new posts,Languages",
        "1,2,bob@example.social,true,false,",
        "\"1\",\"3\",cat@example.social,true,true,\"en, de\"",
        "1.0,4.0,dan@example.social,false,false,",
    ];
    fs::write(&file, rows.join("\r\n")).unwrap();
    let imported = import(&node, &file);
    let expected = json!({"kind": "follows", "imported": 3, "already_there": 0, "bad": 0});
    assert_eq!(imported.json(), expected, "{imported:?}");
    assert_eq!(counts(&node, 1)["following"], "3");
}

#[test]
fn a_table_of_addresses_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (file, node) = (folder.path().join("following_accounts.csv"), Node::start());
    let header = "Account address,Show boosts,Notify on new posts,Languages";
    fs::write(&file, format!("{header}\nbob@example.social,true,false,\ncat@example.social,true,false,en\n"))
        .unwrap();
    let refused = import(&node, &file);
    let expected = format!(
        "kith: {}: no line has two user ids (its columns are \"Account address\", \"Show boosts\", \"Notify on new \
         posts\", \"Languages\"); name two columns of ids user_id and target_id, or put them first",
        file.display()
    );
    assert_eq!((refused.code, refused.notes()), (2, vec![expected.as_str()]));
    assert!(!folder.path().join("following_accounts.csv.kith-progress").exists());
}
