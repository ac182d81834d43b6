//! A node that keeps changes and is killed during writes loses no change that it acknowledged; a restored
//! node refuses the cursors of before.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use kith_proto::{
    change::v1::{
        Change, ChangeKind, GetCursorRequest, ReadChangesRequest, change_service_client::ChangeServiceClient,
    },
    user::v1::{CreateUserRequest, User, user_service_client::UserServiceClient},
};
use parking_lot::Mutex;
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::{
    backup::node::{Node, backup, restore},
    spawned::{kith, output_of},
};

const KILLS: i64 = 4;
const WRITERS: i64 = 8;

/// Starts a node that keeps changes.
async fn start(data: &Path) -> Node {
    Node::start_with(data, &["--set", "changes.kept=1h"]).await
}

async fn cursor(node: &Node) -> String {
    let mut changes = ChangeServiceClient::new(node.channel.clone());
    changes.get_cursor(GetCursorRequest {}).await.unwrap().into_inner().cursor
}

/// Everything after the cursor.
async fn read(node: &Node, cursor: &str) -> Result<Vec<Change>, Status> {
    let (mut all, mut cursor) = (Vec::new(), cursor.to_owned());
    let mut changes = ChangeServiceClient::new(node.channel.clone());
    loop {
        let request = ReadChangesRequest { cursor, ..Default::default() };
        let page = changes.read_changes(request).await?.into_inner();
        all.extend(page.changes);
        cursor = page.cursor;
        if page.ask_again_after.unwrap() != prost_types::Duration::default() {
            return Ok(all);
        }
    }
}

async fn create(channel: &Channel, user_id: i64) -> Result<(), Status> {
    let user = User { user_id, user_name: format!("user {user_id}"), ..Default::default() };
    let request = CreateUserRequest { user: Some(user), ..Default::default() };
    UserServiceClient::new(channel.clone()).create_user(request).await.map(drop)
}

/// Creates users with rising ids until the node is gone.
async fn write(channel: Channel, first: i64, acknowledged: Arc<Mutex<BTreeSet<i64>>>) {
    for user_id in first.. {
        if create(&channel, user_id).await.is_err() {
            return;
        }
        acknowledged.lock().insert(user_id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_node_loses_no_acknowledged_change() {
    let data = tempfile::tempdir().unwrap();
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    let mut begin = None;
    for round in 0..KILLS {
        let node = start(data.path()).await;
        if begin.is_none() {
            begin = Some(cursor(&node).await);
        }
        let before = acknowledged.lock().len();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let first = 1 + 1_000_000 * (round * WRITERS + writer);
                tokio::spawn(write(node.channel.clone(), first, Arc::clone(&acknowledged)))
            })
            .collect();
        let begun = Instant::now();
        while acknowledged.lock().len() < before + 20 + usize::try_from(round).unwrap() * 7 {
            assert!(begun.elapsed() < Duration::from_secs(30), "writes are acknowledged");
            tokio::task::yield_now().await;
        }
        drop(node);
        for writer in writers {
            writer.await.unwrap();
        }
    }
    let node = start(data.path()).await;
    let read = read(&node, &begin.unwrap()).await.unwrap();
    let users = read.iter().filter(|change| change.kind() == ChangeKind::User);
    let read: BTreeSet<i64> = users.map(|change| change.user_id).collect();
    let acknowledged = acknowledged.lock();
    let lost: Vec<_> = acknowledged.difference(&read).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", acknowledged.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_node_refuses_earlier_cursors() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy.db"));
    let node = start(&data).await;
    create(&node.channel, 7).await.unwrap();
    backup(&data, &copy);
    let before = cursor(&node).await;
    create(&node.channel, 8).await.unwrap();
    drop(node);
    let restored = folder.path().join("restored");
    restore(&copy, &restored);
    let node = start(&restored).await;
    let refused = read(&node, &before).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    assert_eq!(refused.get_details_error_info().unwrap().reason, "CURSOR_EXPIRED");
    let begin = cursor(&node).await;
    create(&node.channel, 9).await.unwrap();
    let printed = {
        let mut command = kith(folder.path(), &["changes", "-o", "json", "--after", &begin]);
        command.env("KITH_ADDR", node.process.url());
        output_of(command)
    };
    let (code, out, err) = printed;
    assert_eq!(code, Some(0), "{err}");
    let users: Vec<i64> = out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter_map(|change| change["user"].as_i64())
        .collect();
    assert_eq!(users, [9], "{out}");
    assert!(err.starts_with("cursor ") && err.lines().count() == 1, "{err}");
}
