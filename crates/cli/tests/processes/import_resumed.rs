//! Ten thousand users and five hundred groups are imported, with bad lines among them, killed midway and run
//! again.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use crate::{
    commands::{at, command_at, kith},
    killed::killed_midway,
    process::{self, Node},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::Value;

const USERS: usize = 10_000;
const GROUPS: usize = 500;
const BAD: usize = 20;

fn sample(folder: &Path) {
    let made = Command::new(env!("CARGO_BIN_EXE_kith"))
        .args(["sample", "--users", "10000", "--groups", "500", "--bad", "20", "--seed", "11", "--out"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Returns the bad lines' texts, by line number.
fn bad_lines(notes: &[&str], file: &Path) -> BTreeMap<u64, String> {
    let beginning = format!("{}:", file.display());
    let bad = notes.iter().filter_map(|line| {
        let (number, why) = line.strip_prefix(&beginning)?.split_once(": ")?;
        Some((number.parse().ok()?, why.to_owned()))
    });
    bad.collect()
}

/// Returns the stored records: their names by id.
fn exported(node: &Node, kind: &str, id: &str, name: &str) -> BTreeMap<String, String> {
    let exported = at(node, &["export", kind]);
    assert_eq!(exported.code, 0, "{}", exported.err);
    let records = exported.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |record: &Value, field: &str| record[field].as_str().unwrap().to_owned();
    records.map(|record| (text(&record, id), text(&record, name))).collect()
}

#[test]
fn killed_import_resumes_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let (users, groups) = (folder.path().join("users.jsonl"), folder.path().join("groups.jsonl"));
    let import =
        [["import", "users", users.to_str().unwrap()], ["import", "groups", groups.to_str().unwrap()]];
    let node = Node::start();

    killed_midway(command_at(&node, &import[0]), &users, 5_300);
    let resumed = at(&node, &import[0]);
    let notes = resumed.notes();
    let header = "kind\timported\talready_there\tbad";
    let counts = format!("{header}\nusers\t{USERS}\t0\t{}\n", BAD - BAD / 4);
    assert_eq!((resumed.code, &resumed.out), (1, &counts), "{notes:?}");
    assert!(notes[0].contains("going on behind line"), "{notes:?}");
    let bad = bad_lines(&notes, &users);
    assert_eq!(bad.len(), BAD - BAD / 4);
    assert_eq!(bad.values().collect::<BTreeSet<_>>().len(), bad.len(), "each is bad in a way of its own");

    let whole = at(&node, &import[1]);
    assert_eq!(whole.out, format!("{header}\ngroups\t{GROUPS}\t0\t{}\n", BAD / 4));
    assert_eq!(bad_lines(&whole.notes(), &groups).len(), BAD / 4);

    let stored = exported(&node, "users", "userId", "userName");
    assert_eq!(stored.len(), USERS);
    assert_eq!(stored.values().collect::<BTreeSet<_>>().len(), USERS);
    assert_eq!(exported(&node, "groups", "groupId", "name").len(), GROUPS);
}

#[test]
fn import_that_cannot_begin_has_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.jsonl");
    fs::write(&file, "{}\n").unwrap();
    let free = process::free_address();
    for (path, words) in
        [(file, "no node answers at"), (folder.path().join("absent.jsonl"), "could not read")]
    {
        let path = path.to_str().unwrap();
        let ended = kith(["import", "users", "--wait", "0s", "--addr", &format!("http://{free}"), path]);
        assert!(ended.code == 2 && ended.why().contains(words), "{ended:?}");
    }
}
