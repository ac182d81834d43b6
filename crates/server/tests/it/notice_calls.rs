//! Makes the audiences, notices and marks from which tests start.

use std::time::SystemTime;

use kith_proto::notice::v1::*;
use kith_server::config::Config;
use tonic::Status;

use crate::node::TestNode;

/// Returns the time in `seconds` seconds.
pub fn in_seconds(seconds: i64) -> prost_types::Timestamp {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    prost_types::Timestamp { seconds: i64::try_from(now).unwrap() + seconds, nanos: 0 }
}

/// Registers an audience.
pub async fn audience(node: &TestNode, audience_id: i32, of_users: bool) -> Audience {
    let audience =
        Audience { audience_id, name: format!("audience {audience_id}"), of_users, ..Default::default() };
    let request = RegisterAudienceRequest { audience: Some(audience), ..Default::default() };
    node.notices().register_audience(request).await.unwrap().into_inner().audience.unwrap()
}

/// Starts a node with audience 1, whose readers are no users.
pub async fn node_with_audience(change: impl FnOnce(&mut Config)) -> TestNode {
    let node = TestNode::start_with(change).await;
    audience(&node, 1, false).await;
    node
}

/// Makes a notice with a title.
pub fn new_notice(audience_ids: &[i32]) -> Notice {
    Notice {
        title: "Maintenance".into(),
        body: "On Sunday".into(),
        audience_ids: audience_ids.to_vec(),
        ..Default::default()
    }
}

/// Publishes a notice and returns it.
pub async fn publish(node: &TestNode, notice: Notice) -> Notice {
    let request = PublishNoticeRequest { notice: Some(notice), ..Default::default() };
    node.notices().publish_notice(request).await.unwrap().into_inner().notice.unwrap()
}

/// Reads a notice as a service.
pub async fn notice(node: &TestNode, notice_id: i64) -> Result<Notice, Status> {
    let request = GetNoticeRequest { notice_id, consistency: None };
    node.notices().get_notice(request).await.map(|answer| answer.into_inner().notice.unwrap())
}

/// Returns all notices that a reader sees; 0: a service.
pub async fn list(node: &TestNode, audience_id: i32, reader_id: i64) -> Vec<ListedNotice> {
    let request = ListNoticesRequest { audience_id, reader_id, page_size: 100, ..Default::default() };
    node.notices().list_notices(request).await.unwrap().into_inner().notices
}

/// Returns the listed notices' ids.
pub fn ids(listed: &[ListedNotice]) -> Vec<i64> {
    listed.iter().map(|listed| listed.notice.as_ref().unwrap().notice_id).collect()
}

/// Marks notices as read.
pub async fn mark(node: &TestNode, audience_id: i32, reader_id: i64, notice_ids: &[i64]) -> MarkReadResponse {
    let request =
        MarkReadRequest { audience_id, reader_id, notice_ids: notice_ids.to_vec(), ..Default::default() };
    node.notices().mark_read(request).await.unwrap().into_inner()
}

/// Marks notices as not read.
pub async fn unmark(
    node: &TestNode,
    audience_id: i32,
    reader_id: i64,
    notice_ids: &[i64],
) -> MarkUnreadResponse {
    let request = MarkUnreadRequest { audience_id, reader_id, notice_ids: notice_ids.to_vec() };
    node.notices().mark_unread(request).await.unwrap().into_inner()
}

/// Returns a reader's read, unread and unconfirmed totals.
pub async fn totals(node: &TestNode, audience_id: i32, reader_id: i64) -> (i32, i32, i32) {
    let request = CountNoticesRequest { audience_id, reader_id, consistency: None };
    let totals = node.notices().count_notices(request).await.unwrap().into_inner().totals.unwrap();
    (totals.read, totals.unread, totals.unconfirmed)
}
