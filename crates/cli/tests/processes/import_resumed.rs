//! An import of ten thousand users and five hundred groups, with bad lines among them, killed midway and run
//! again.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use crate::{
    killed::killed_midway,
    process::{self, Node},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

const USERS: usize = 10_000;
const GROUPS: usize = 500;
const BAD: usize = 20;

/// Writes the sample as `cargo xtask sample` does.
fn sample(folder: &Path) {
    let made = Command::new(env!("CARGO"))
        .args([
            "xtask", "sample", "--users", "10000", "--groups", "500", "--bad", "20", "--seed", "11", "--out",
        ])
        .arg(folder)
        .current_dir(process::root())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn import(node: &Node, kind: &str, file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    command.args(["import", kind]).arg(file).args(["--addr", &format!("http://{}", node.grpc)]);
    command
}

fn texts(output: &Output) -> (String, Vec<String>) {
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    (String::from_utf8(output.stdout.clone()).unwrap(), told.lines().map(str::to_owned).collect())
}

/// Lines of bad records, by their number.
fn bad_lines(told: &[String], file: &Path) -> BTreeMap<u64, String> {
    let beginning = format!("{}:", file.display());
    let bad = told.iter().filter_map(|line| {
        let (number, why) = line.strip_prefix(&beginning)?.split_once(": ")?;
        Some((number.parse().ok()?, why.to_owned()))
    });
    bad.collect()
}

/// The records that stand: their names by id.
fn exported(node: &Node, kind: &str, id: &str, name: &str) -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_kith"))
        .args(["export", kind, "--addr", &format!("http://{}", node.grpc)])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let records = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records = records.map(|line| serde_json::from_slice::<Value>(line).unwrap());
    let text = |record: &Value, field: &str| record[field].as_str().unwrap().to_owned();
    records.map(|record| (text(&record, id), text(&record, name))).collect()
}

#[test]
fn killed_import_resumes_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let (users, groups) = (folder.path().join("users.jsonl"), folder.path().join("groups.jsonl"));
    let node = Node::start();

    killed_midway(import(&node, "users", &users), &users, 5_300);
    let resumed = import(&node, "users", &users).output().unwrap();
    let (counts, told) = texts(&resumed);
    let header = "kind\timported\talready_there\tbad";
    assert_eq!(counts, format!("{header}\nusers\t{USERS}\t0\t{}\n", BAD - BAD / 4), "{told:?}");
    assert_eq!(resumed.status.code(), Some(1));
    assert!(told[0].contains("going on behind line"), "{told:?}");
    let bad = bad_lines(&told, &users);
    assert_eq!(bad.len(), BAD - BAD / 4);
    assert_eq!(bad.values().collect::<BTreeSet<_>>().len(), bad.len(), "each is bad in a way of its own");

    let whole = import(&node, "groups", &groups).output().unwrap();
    let (counts, told) = texts(&whole);
    assert_eq!(counts, format!("{header}\ngroups\t{GROUPS}\t0\t{}\n", BAD / 4));
    assert_eq!(bad_lines(&told, &groups).len(), BAD / 4);

    let standing = exported(&node, "users", "userId", "userName");
    assert_eq!(standing.len(), USERS);
    assert_eq!(standing.values().collect::<BTreeSet<_>>().len(), USERS);
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
        let output = Command::new(env!("CARGO_BIN_EXE_kith"))
            .args(["import", "users", "--wait", "0s", "--addr", &format!("http://{free}")])
            .arg(&path)
            .output()
            .unwrap();
        let (_, told) = texts(&output);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(words), "{told:?}");
    }
}
