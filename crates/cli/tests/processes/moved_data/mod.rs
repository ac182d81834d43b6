//! Everything that a node stores is moved to another node, and is found there again.

#![cfg(feature = "embedded")]

#[cfg(feature = "cluster")]
mod backed_up;
mod checklist;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "cluster")]
mod cluster_versions;
mod filled;
mod versions;

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

pub(crate) use self::checklist::Caller;
use self::filled::fill;
use crate::{
    commands::{CommandOutput, output_of},
    process::Node,
};

/// Runs `kith` for the node at an address.
fn kith_at(address: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    command.env_clear().args(arguments).env("KITH_ADDR", address);
    output_of(command, "")
}

fn export(address: &str, folder: &Path) {
    let exported = kith_at(address, &["export", "all", folder.to_str().unwrap()]);
    assert_eq!(exported.code, 0, "{exported:?}");
}

pub(crate) fn import(address: &str, folder: &Path) -> CommandOutput {
    kith_at(address, &["import", "all", folder.to_str().unwrap(), "-o", "json"])
}

/// Each kind's counts, by name: imported, already there, bad.
pub(crate) fn counts(imported: &CommandOutput) -> Vec<(String, [u64; 3])> {
    let all = imported.json();
    let number = |one: &Value, field: &str| one[field].as_u64().unwrap();
    let of = |one: &Value| {
        let counts = ["imported", "already_there", "bad"].map(|field| number(one, field));
        (one["kind"].as_str().unwrap().to_owned(), counts)
    };
    all.as_array().unwrap().iter().map(of).collect()
}

/// Imports the folder twice, and compares what the nodes answer.
async fn assert_moves(folder: &Path, from: &mut Caller, to: &mut Caller, address: &str) {
    let expected = from.checklist().await;
    let first = import(address, folder);
    assert_eq!(first.code, 0, "{first:?}");
    to.until_answers(&expected).await;
    let again = import(address, folder);
    assert_eq!(again.code, 0, "{again:?}");
    for ((kind, [imported, there, bad]), (_, before)) in counts(&again).into_iter().zip(counts(&first)) {
        assert_eq!((imported, bad, there), (0, 0, before[0] + before[1]), "{kind}");
        assert!(there > 0, "{kind}");
    }
    to.until_answers(&expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_moves_to_another_file() {
    let (folder, from, to) = (tempfile::tempdir().unwrap(), Node::start(), Node::start());
    let mut caller = Caller::open(&from.grpc).await;
    fill(&mut caller).await;
    let data = folder.path().join("data");
    export(&from.grpc, &data);
    assert_moves(&data, &mut caller, &mut Caller::open(&to.grpc).await, &to.grpc).await;
    let refused = kith_at(&from.grpc, &["export", "all", data.to_str().unwrap()]);
    assert!(refused.code == 2 && refused.err.contains("contains an export already"), "{refused:?}");
}

/// Bad lines of each kind do not keep the others from being imported.
#[tokio::test(flavor = "multi_thread")]
async fn broken_lines_are_named_and_skipped() {
    let (folder, from, to) = (tempfile::tempdir().unwrap(), Node::start(), Node::start());
    let mut caller = Caller::open(&from.grpc).await;
    fill(&mut caller).await;
    let data = folder.path().join("data");
    export(&from.grpc, &data);
    let expected = caller.checklist().await;
    let kinds = ["users", "groups", "members", "follows", "settings", "dialogs", "applications", "states"];
    for kind in kinds {
        let file = data.join(format!("{kind}.jsonl"));
        let lines = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{{\"shoeSize\":44}}\n{lines}")).unwrap();
    }
    let imported = import(&to.grpc, &data);
    assert_eq!(imported.code, 1, "{imported:?}");
    for (kind, [_, _, bad]) in counts(&imported) {
        assert_eq!(bad, u64::from(kinds.contains(&&*kind)), "{kind}: {imported:?}");
        let named = format!("{kind}.jsonl:1: ");
        assert!(bad == 0 || imported.err.contains(&named), "{kind}: {imported:?}");
    }
    Caller::open(&to.grpc).await.until_answers(&expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_without_manifest_is_refused() {
    let (folder, node) = (tempfile::tempdir().unwrap(), Node::start());
    fs::write(folder.path().join("users.jsonl"), json!({ "userName": "ann" }).to_string()).unwrap();
    let refused = import(&node.grpc, folder.path());
    assert!(refused.code == 2 && refused.err.contains("the export is not complete"), "{refused:?}");
}
