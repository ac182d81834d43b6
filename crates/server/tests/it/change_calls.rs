//! Calls about changes that tests share.

use std::time::Duration;

use kith_proto::change::v1::{Change, ChangeKind, GetCursorRequest, ReadChangesRequest, ReadChangesResponse};
use kith_server::config::Config;
use tonic::Status;

use crate::node::{TestNode, until};

/// Keeps changes, with dialogs.
pub fn keeping(config: &mut Config) {
    config.changes.kept = Duration::from_secs(3_600);
    config.changes.dialogs = true;
}

/// Returns the cursor at the end. A cluster begins to keep changes some time after its start.
pub async fn cursor(node: &TestNode) -> String {
    let mut cursor = String::new();
    until(async || match node.changes().get_cursor(GetCursorRequest {}).await {
        Ok(answer) => {
            cursor = answer.into_inner().cursor;
            true
        }
        Err(_) => false,
    })
    .await;
    cursor
}

pub async fn page(
    node: &TestNode,
    cursor: &str,
    kinds: &[ChangeKind],
    limit: i32,
) -> Result<ReadChangesResponse, Status> {
    let kinds = kinds.iter().map(|kind| i32::from(*kind)).collect();
    let request = ReadChangesRequest { cursor: cursor.to_owned(), kinds, limit };
    Ok(node.changes().read_changes(request).await?.into_inner())
}

/// Returns everything after a cursor, in pages with this limit, and the cursor at the end.
pub async fn read_all(
    node: &TestNode,
    cursor: &str,
    kinds: &[ChangeKind],
    limit: i32,
) -> (Vec<Change>, String) {
    let (mut all, mut cursor) = (Vec::new(), cursor.to_owned());
    loop {
        let page = page(node, &cursor, kinds, limit).await.unwrap();
        assert!(limit == 0 || page.changes.len() <= usize::try_from(limit).unwrap());
        all.extend(page.changes);
        cursor = page.cursor;
        if page.ask_again_after.unwrap() != prost_types::Duration::default() {
            return (all, cursor);
        }
    }
}

/// Waits until a change after the cursor is found, and returns all that came until then.
pub async fn until_seen(node: &TestNode, cursor: &str, is: impl Fn(&Change) -> bool) -> Vec<Change> {
    let (mut seen, mut at) = (Vec::new(), cursor.to_owned());
    until(async || {
        let (more, next) = read_all(node, &at, &[], 0).await;
        seen.extend(more);
        at = next;
        seen.iter().any(&is)
    })
    .await;
    seen
}

/// Returns the users in changes of users, each once, in order of their last change.
pub fn users(changes: &[Change]) -> Vec<i64> {
    let mut users = Vec::new();
    for change in changes.iter().filter(|change| change.kind() == ChangeKind::User) {
        users.retain(|user| *user != change.user_id);
        users.push(change.user_id);
    }
    users
}
