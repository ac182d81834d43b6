//! A restored node that keeps changes refuses earlier cursors.

use std::path::Path;

use kith_proto::{
    change::v1::{Change, GetCursorRequest, ReadChangesRequest, change_service_client::ChangeServiceClient},
    user::v1::{CreateUserRequest, User, user_service_client::UserServiceClient},
};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::{
    backup::node::{Node, backup, restore},
    spawned::{kith, output_of},
};

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
