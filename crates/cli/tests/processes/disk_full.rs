//! A disk fills up under an embedded node: writes are refused with the reason, reads go on, and no restart is
//! necessary when there is room.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs::File,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use crate::spawned::{FREE, Started, output_of, without_variables};
use kith_proto::{
    r#type::v1::{Consistency, consistency},
    user::v1::{CreateUserRequest, GetUserRequest, User, user_service_client::UserServiceClient},
};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

/// How many writes are made on a full disk: the first may still find room.
const WRITES: i64 = 100;

/// Starts a node whose data folder is its own file system with this size.
fn start(dir: &Path, room: &str) -> Option<Started> {
    let mut command = Command::new("unshare");
    if !Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success()) {
        return None;
    }
    let script = format!("mkdir -p data && mount -t tmpfs -o size={room} tmpfs data && exec \"$@\"");
    command.args(["-Urm", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_kith")]).args(FREE);
    command.args(["--log", "error"]);
    Some(Started::of(without_variables(command, dir)))
}

/// Runs a command in the node's mount namespace: it has the same disk.
fn in_mounts_of(dir: &Path, node: &Started, arguments: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["-t", &node.banner["pid"].to_string(), "-U", "-m", "--preserve-credentials"]);
    command.arg("sh").args(["-c", "cd \"$0\" && exec \"$@\""]).arg(dir).arg(env!("CARGO_BIN_EXE_kith"));
    command.args(arguments).args(FREE);
    command
}

/// Returns its data folder, as others see it.
fn data(dir: &Path, node: &Started) -> PathBuf {
    let dir = dir.canonicalize().unwrap();
    let root = PathBuf::from(format!("/proc/{}/root", node.banner["pid"]));
    root.join(dir.strip_prefix("/").unwrap()).join("data")
}

/// Fills the remaining room.
fn fill(ballast: &Path) {
    let mut file = File::create(ballast).unwrap();
    let full = (0..1 << 20).find_map(|_| file.write_all(&[0; 1_024]).err());
    assert_eq!(full.unwrap().kind(), ErrorKind::StorageFull);
}

async fn create(users: &mut UserServiceClient<Channel>, user_id: i64) -> Result<(), Status> {
    let user = User { user_id, user_name: format!("user {user_id}"), ..Default::default() };
    let request_id = format!("request-{user_id}");
    let request = CreateUserRequest { user: Some(user), request_id };
    users.create_user(request).await.map(drop)
}

async fn assert_read(users: &mut UserServiceClient<Channel>, user_id: i64, there: bool) {
    let level = Some(consistency::Level::Strong(true));
    let request = GetUserRequest { user_id, consistency: Some(Consistency { level }) };
    let read = users.get_user(request).await.map(|_| ()).map_err(|status| status.code());
    assert_eq!(read, if there { Ok(()) } else { Err(Code::NotFound) }, "user {user_id}");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_refuses_writes_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let Some(node) = start(dir.path(), "6m") else {
        eprintln!("left out: users may have no file systems of their own here");
        return;
    };
    let mut users = UserServiceClient::new(node.channel().await);
    create(&mut users, 1).await.unwrap();
    let data = data(dir.path(), &node);
    let ballast = data.join("ballast");
    fill(&ballast);
    let mut written = BTreeMap::from([(1, true)]);
    for user_id in 2..WRITES {
        let created = create(&mut users, user_id).await;
        if let Err(status) = &created {
            let reason = status.get_details_error_info().unwrap().reason;
            assert_eq!((status.code(), reason.as_str()), (Code::ResourceExhausted, "STORE_FULL"));
        }
        written.insert(user_id, created.is_ok());
        assert_read(&mut users, 1, true).await;
    }
    let refused = written.values().filter(|written| !**written).count();
    println!("{refused} of {} writes on a full disk were refused", written.len());
    assert!(refused > 50, "{refused}");
    for (user_id, there) in &written {
        assert_read(&mut users, *user_id, *there).await;
    }
    let body = node.until_ready(|_, body| body["reasons"][0]["reason"] == "store_full");
    assert_eq!(body["ready"], true, "reads are answered");
    assert_eq!(node.figure("kith_store_full"), 1);
    let (code, found, _) = output_of(in_mounts_of(dir.path(), &node, &["doctor"]));
    assert_eq!(code, Some(1), "{found}");
    assert!(found.contains("0 MiB are free where ./data lies") && found.contains("df -h"), "{found}");

    std::fs::remove_file(ballast).unwrap();
    for user_id in written.keys() {
        create(&mut users, *user_id).await.unwrap();
        assert_read(&mut users, *user_id, true).await;
    }
    node.until_ready(|_, body| body["reasons"][0]["reason"] == "store_nearly_full");
    // The backup checks its copy, as `PRAGMA integrity_check` does.
    let (code, _, errors) = output_of(in_mounts_of(dir.path(), &node, &["backup", "--to", "copy.db"]));
    assert_eq!(code, Some(0), "{errors}");
}
