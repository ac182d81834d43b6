//! Bad notice input: the same code and field by gRPC and by JSON, and nothing written.

use serde_json::{Value, json};

use super::{assert_field_refused, called, with};
use crate::node::TestNode;
use crate::notice_calls::{list, node_with_audience};

fn path(method: &str) -> String {
    format!("/kith.notice.v1.NoticeService/{method}")
}

#[tokio::test]
async fn notices_that_cannot_be_are_refused() {
    let node = node_with_audience(|config| config.notices.body_bytes = 100).await;
    let right = json!({ "title": "a", "audienceIds": [1] });
    let many: Vec<i32> = (1..=65).collect();
    let wrong: Vec<(Value, &str, &str)> = vec![
        (json!({ "title": "" }), "title", "must not be empty"),
        (json!({ "title": "x".repeat(201) }), "title", "must have at most 200"),
        (json!({ "body": "x".repeat(101) }), "body", "must have at most 100 bytes"),
        (json!({ "params": { "$set": "x" } }), "params", "must have keys"),
        (json!({ "audienceIds": [] }), "audience_ids", "must hold from 1 to 64"),
        (json!({ "audienceIds": [1, 1] }), "audience_ids", "each once"),
        (json!({ "audienceIds": many }), "audience_ids", "must hold at most 64"),
        (
            json!({ "publishTime": "2030-01-01T00:00:00Z", "expireTime": "2030-01-01T00:00:00Z" }),
            "expire_time",
            "must be after",
        ),
    ];
    for (fields, field, why) in wrong {
        let body = json!({ "notice": with(right.clone(), fields) });
        assert_field_refused(&node, &path("PublishNotice"), &body, field, why).await;
    }
    assert_eq!(list(&node, 1, 0).await, []);
    node.assert_healthy().await;
}

#[tokio::test]
async fn absent_or_nameless_audiences_are_refused() {
    let node = TestNode::start().await;
    let of_reader = json!({ "audienceId": 2, "readerId": "7" });
    let of_notices = with(of_reader.clone(), json!({ "noticeIds": ["1"] }));
    for (method, body) in [
        ("CountNotices", of_reader.clone()),
        ("ListNotices", of_reader),
        ("MarkRead", of_notices.clone()),
        ("MarkUnread", of_notices.clone()),
        ("GetReadState", of_notices),
        ("CountReaders", json!({ "audienceId": 2, "noticeIds": ["1"] })),
        ("ListReaders", json!({ "audienceId": 2, "noticeId": "1", "state": "READER_STATE_READ" })),
        ("RegisterReaders", json!({ "audienceId": 2 })),
    ] {
        assert_eq!(called(&node, &path(method), &body).await.code, "not_found", "{method}");
    }
    node.assert_healthy().await;
    for name in ["", &"x".repeat(65)] {
        let body = json!({ "audience": { "audienceId": 1, "name": name } });
        assert_field_refused(&node, &path("RegisterAudience"), &body, "name", "must").await;
    }
}

#[tokio::test]
async fn contradicting_marks_and_states_are_refused() {
    let node = node_with_audience(|_| {}).await;
    let body = json!({ "audienceId": 1, "noticeId": "1", "state": 0 });
    assert_field_refused(&node, &path("ListReaders"), &body, "state", "must be one of").await;
    let body = json!({ "audienceId": 1, "readerId": "7", "all": true, "noticeIds": ["1"] });
    assert_field_refused(&node, &path("MarkRead"), &body, "notice_ids", "must be empty").await;
    node.assert_healthy().await;
}
