//! Which cursors go on, over a node's file: restarts, rights, and what is not kept any more.

use std::time::Duration;

use kith_proto::{
    change::v1::{
        ChangeKind, GetCursorRequest, ReadChangesRequest, change_service_client::ChangeServiceClient,
    },
    user::v1::User,
};
use kith_server::auth::{Rights, Scope};
use tempfile::TempDir;
use tonic::Code;

use crate::{
    change_calls::{cursor, keeping, page, read_all, until_seen, users},
    node::{TestNode, assert_error},
    secured_node::{ALL, SecuredNode, by, by_token},
    signing::Signer,
};

/// A node over the folder of a stopped one.
async fn over(folder: &TempDir, kept: u64, dialogs: bool) -> TestNode {
    TestNode::start_with(|config| {
        config.data_dir = folder.path().join("data");
        config.changes.kept = Duration::from_secs(kept);
        config.changes.dialogs = dialogs;
    })
    .await
}

async fn assert_expired(node: &TestNode, cursor: &str) {
    let refused = page(node, cursor, &[], 0).await;
    let refused = assert_error(refused, Code::FailedPrecondition, "CURSOR_EXPIRED");
    assert!(refused.message().contains("export everything"), "{refused:?}");
}

#[tokio::test]
async fn cursor_goes_on_after_a_restart() {
    let node = TestNode::start_with(keeping).await;
    let begin = cursor(&node).await;
    let ann = node.user("ann").await.user_id;
    until_seen(&node, &begin, |change| change.user_id == ann).await;
    let (_, read) = read_all(&node, &begin, &[], 0).await;
    let bea = node.user("bea").await.user_id;
    let folder = node.stop().await;
    let node = over(&folder, 60, true).await;
    let cid = node.user("cid").await.user_id;
    until_seen(&node, &begin, |change| change.user_id == cid).await;
    assert_eq!(users(&read_all(&node, &begin, &[], 0).await.0), [ann, bea, cid]);
    assert_eq!(users(&read_all(&node, &read, &[], 0).await.0), [bea, cid]);
    node.stop().await;
}

#[tokio::test]
async fn switching_off_ends_all_cursors() {
    let node = TestNode::start_with(keeping).await;
    let begin = cursor(&node).await;
    let folder = node.stop().await;
    let node = over(&folder, 0, true).await;
    assert_expired(&node, &begin).await;
    assert_error(
        node.changes().get_cursor(GetCursorRequest {}).await,
        Code::FailedPrecondition,
        "NOT_CONFIGURED",
    );
    node.user("not kept").await;
    node.stop().await;
    let node = over(&folder, 3_600, true).await;
    assert_expired(&node, &begin).await;
    let second = cursor(&node).await;
    node.stop().await;
    let node = over(&folder, 3_600, false).await;
    assert_expired(&node, &second).await;
    node.stop().await;
}

#[tokio::test]
async fn missing_scope_is_named() {
    let callers = [
        ("search", Rights::of(&[Scope::ChangeExport, Scope::UserRead])),
        ("reader", Rights::of(&[Scope::UserRead, Scope::MessageRead])),
    ];
    let callers = callers.map(|(name, rights)| (name.to_owned(), rights));
    let signer = Signer::new(1);
    let node = SecuredNode::start_with(callers, signer.tokens(), keeping).await;
    let mut client = ChangeServiceClient::new(node.channel.clone());
    let cursor = client.get_cursor(by("search", GetCursorRequest {})).await.unwrap().into_inner().cursor;
    for user_id in [7, 8] {
        node.create_user(User { user_id, user_name: format!("user{user_id}"), ..Default::default() }).await;
    }
    // The node reads where the end is at most every 100 ms.
    let read = |kinds: &[ChangeKind]| ReadChangesRequest {
        cursor: cursor.clone(),
        kinds: kinds.iter().map(|kind| (*kind).into()).collect(),
        limit: 0,
    };
    crate::node::until(async || {
        let page = client.read_changes(by("search", read(&[]))).await.unwrap().into_inner();
        page.changes.iter().any(|change| change.user_id == 8)
    })
    .await;
    let kinds = [ChangeKind::User, ChangeKind::Messages];
    let refused = client.read_changes(by("search", read(&kinds))).await;
    let refused = assert_error(refused, Code::PermissionDenied, "SCOPE_MISSING");
    assert!(refused.message().ends_with("the scope message:read"), "{refused:?}");
    let refused = client.read_changes(by("reader", read(&[]))).await;
    let refused = assert_error(refused, Code::PermissionDenied, "SCOPE_MISSING");
    assert!(refused.message().ends_with("the scope change:export"), "{refused:?}");
    let by_user = client.read_changes(by_token(&signer.token(7), read(&[]))).await;
    assert_error(by_user, Code::PermissionDenied, "SCOPE_MISSING");
    client.read_changes(by(ALL, read(&kinds))).await.unwrap();
}
