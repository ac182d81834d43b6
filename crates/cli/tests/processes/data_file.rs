//! The data file under a running node is removed, replaced, damaged, or reaches the file size limit. The node
//! reports it, and acknowledges nothing that would be lost.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::FileExt as _,
    path::Path,
    process::Command,
};

use kith_proto::{
    r#type::v1::{Consistency, consistency},
    user::v1::{CreateUserRequest, GetUserRequest, User, user_service_client::UserServiceClient},
};
use serde_json::Value;
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::spawned::{FREE, Started, kith, output_of, without_variables};

const PAGE: u64 = 4096;

type Users = UserServiceClient<Channel>;

async fn create(users: &mut Users, user_id: i64) -> Result<(), Status> {
    let params = BTreeMap::from([("text".to_owned(), "x".repeat(2_000))]);
    let user = User { user_id, user_name: format!("user {user_id}"), params, ..Default::default() };
    users.create_user(CreateUserRequest { user: Some(user), ..Default::default() }).await.map(drop)
}

async fn read(users: &mut Users, user_id: i64) -> Result<(), Status> {
    let level = Some(consistency::Level::Strong(true));
    users.get_user(GetUserRequest { user_id, consistency: Some(Consistency { level }) }).await.map(drop)
}

fn reason_of(status: &Status) -> String {
    status.get_details_error_info().unwrap().reason
}

/// Returns the reasons in an answer from `/readyz`.
fn reasons(body: &Value) -> Vec<&str> {
    body["reasons"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect()
}

/// Returns the level of a row in `kith check`, which every node answers.
fn checked(dir: &Path, node: &Started, row: &str) -> String {
    let (_, out, errors) = output_of(kith(dir, &["check", "--addr", &node.url(), "-o", "json"]));
    let answer: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {errors}"));
    let rows = answer["checks"].as_array().unwrap().clone();
    rows.iter().find(|found| found["check"] == row).unwrap()["level"].as_str().unwrap().to_owned()
}

/// A name, and a change to the data folder.
type Replacement = (&'static str, fn(&Path));

#[tokio::test(flavor = "multi_thread")]
async fn no_write_goes_to_a_replaced_file() {
    let ways: [Replacement; 3] = [
        ("removed", |data| fs::remove_dir_all(data).unwrap()),
        ("moved", |data| fs::rename(data, data.with_extension("old")).unwrap()),
        ("replaced", |data| {
            fs::copy(data.join("kith.db"), data.join("copy")).unwrap();
            fs::rename(data.join("copy"), data.join("kith.db")).unwrap();
        }),
    ];
    for (way, replace) in ways {
        let dir = tempfile::tempdir().unwrap();
        let node = Started::new(dir.path(), &[]);
        let mut users = Users::new(node.channel().await);
        create(&mut users, 1).await.unwrap();
        replace(&dir.path().join("data"));
        let refused = create(&mut users, 2).await.unwrap_err();
        assert_eq!(
            (refused.code(), reason_of(&refused).as_str()),
            (Code::Unavailable, "STORE_UNAVAILABLE"),
            "{way}"
        );
        let body = node.until_ready(|code, _| code == 503);
        assert_eq!(reasons(&body), ["store_replaced"], "{way}: {body}");
        assert_eq!(checked(dir.path(), &node, "store"), "critical", "{way}");
        read(&mut users, 1).await.unwrap();
        assert!(node.logged().contains("was removed, moved or replaced"), "{way}: {}", node.logged());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_pages_are_named_everywhere() {
    const USERS: i64 = 300;
    let dir = tempfile::tempdir().unwrap();
    let node = Started::new(dir.path(), &[]);
    let mut users = Users::new(node.channel().await);
    for user_id in 1..=USERS {
        create(&mut users, user_id).await.unwrap();
    }
    assert_eq!(checked(dir.path(), &node, "damaged_reads"), "ok");
    node.stop();
    let path = dir.path().join("data/kith.db");
    let pages = fs::metadata(&path).unwrap().len() / PAGE;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Users were written last, and are most of the data.
    for page in pages - 30..pages {
        file.write_all_at(&[0xa5; 4096], page * PAGE).unwrap();
    }
    drop(file);
    let node = Started::new(dir.path(), &[]);
    let mut users = Users::new(node.channel().await);
    let (mut answered, mut refused) = (0, BTreeSet::new());
    for user_id in 1..=USERS {
        match read(&mut users, user_id).await {
            Ok(()) => answered += 1,
            Err(status) => drop(refused.insert((status.code() as i32, reason_of(&status)))),
        }
    }
    assert!(answered > 0, "what is not damaged is answered");
    assert_eq!(refused, BTreeSet::from([(Code::DataLoss as i32, "STORE_DAMAGED".to_owned())]));
    let body = node.until_ready(|_, body| !reasons(body).is_empty());
    assert_eq!(reasons(&body), ["store_damaged"]);
    assert!(node.figure("kith_store_damaged_total") > 0);
    assert!(node.logged().contains("stored data cannot be read"), "{}", node.logged());
    assert_eq!(checked(dir.path(), &node, "damaged_reads"), "critical");
    // The running node's file is checked first, then the stopped node's.
    assert_doctor_finds_damage(dir.path());
    node.stop();
    assert_doctor_finds_damage(dir.path());
}

fn assert_doctor_finds_damage(dir: &Path) {
    let (code, found, _) = output_of(kith(dir, &[&["doctor", "--timeout", "20s"], &FREE[..]].concat()));
    assert!(code == Some(1) && found.contains("kith.db is damaged"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_on_file_size_is_a_full_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    // The limit is 2 MiB, or 4 MiB where a shell block has 1024 bytes.
    command.args(["-c", "ulimit -f 4096 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_kith")]).args(FREE);
    let node = Started::of(without_variables(command, dir.path()));
    let body = node.until_ready(|_, body| !reasons(body).is_empty());
    assert_eq!(reasons(&body), ["store_nearly_full"], "it warns before it is full");
    assert_eq!(checked(dir.path(), &node, "store_free_bytes"), "critical");
    let mut users = Users::new(node.channel().await);
    let mut refused = None;
    for user_id in 1..5_000 {
        if let Err(status) = create(&mut users, user_id).await {
            refused = Some(status);
            break;
        }
    }
    let refused = refused.expect("the limit is reached");
    assert_eq!((refused.code(), reason_of(&refused).as_str()), (Code::ResourceExhausted, "STORE_FULL"));
    read(&mut users, 1).await.unwrap();
    let body = node.until_ready(|_, body| reasons(body) == ["store_full"]);
    assert_eq!(body["ready"], true, "reads are answered");
    assert_eq!(node.figure("kith_store_full"), 1);
    node.stop();
}
