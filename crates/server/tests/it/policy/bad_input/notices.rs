//! Bad notice input: the same code and field by gRPC and by JSON, and nothing written.

use serde_json::{Value, json};

use super::{assert_field_refused, called, with};
use crate::node::TestNode;
use crate::notice_calls::{list, mark, new_notice, node_with_audience, publish, totals};

fn path(method: &str) -> String {
    format!("/kith.notice.v1.NoticeService/{method}")
}

/// Numbers that are no audience ids.
const AUDIENCES: [i64; 3] = [0, -1, -2_147_483_648];
/// Numbers that are no notice or reader ids.
const IDS: [&str; 3] = ["0", "-1", "-9223372036854775808"];

#[tokio::test]
async fn audiences_that_cannot_be_are_refused() {
    let node = TestNode::start().await;
    let register = path("RegisterAudience");
    let right = json!({ "audienceId": 1, "name": "Customers" });
    for audience_id in AUDIENCES {
        let body = json!({ "audience": with(right.clone(), json!({ "audienceId": audience_id })) });
        assert_field_refused(&node, &register, &body, "audience_id", "must be from 1").await;
    }
    for name in ["", "a\nb", "\u{200B}", &"x".repeat(65)] {
        let body = json!({ "audience": with(right.clone(), json!({ "name": name })) });
        assert_field_refused(&node, &register, &body, "name", "must").await;
    }
    assert_field_refused(&node, &register, &json!({}), "audience", "must be given").await;
    node.assert_healthy().await;
}

#[tokio::test]
async fn notices_that_cannot_be_are_refused() {
    let node = node_with_audience(|config| config.notices.body_bytes = 100).await;
    let right = json!({ "title": "a", "audienceIds": [1] });
    let many: Vec<i32> = (1..=65).collect();
    let wrong: Vec<(Value, &str, &str)> = vec![
        (json!({ "noticeId": "-1" }), "notice_id", "must be above 0"),
        (json!({ "title": "" }), "title", "must not be empty"),
        (json!({ "title": "x".repeat(201) }), "title", "must have at most 200"),
        (json!({ "title": "a\nb" }), "title", "must"),
        (json!({ "body": "x".repeat(101) }), "body", "must have at most 100 bytes"),
        (json!({ "body": "a\u{0}" }), "body", "must"),
        (json!({ "params": { "$set": "x" } }), "params", "must have keys"),
        (json!({ "audienceIds": [] }), "audience_ids", "must hold from 1 to 64"),
        (json!({ "audienceIds": [1, 1] }), "audience_ids", "each once"),
        (json!({ "audienceIds": [1, 0] }), "audience_ids", "must be from 1"),
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
    assert_field_refused(&node, &path("PublishNotice"), &json!({}), "notice", "must be given").await;
    assert_eq!(list(&node, 1, 0).await, []);
    node.assert_healthy().await;
}

#[tokio::test]
async fn low_ids_and_too_many_are_refused_everywhere() {
    let node = node_with_audience(|_| {}).await;
    let notice = publish(&node, new_notice(&[1])).await.notice_id;
    let of_reader = json!({ "audienceId": 1, "readerId": "7" });
    let of_notices = with(of_reader.clone(), json!({ "noticeIds": [notice.to_string()] }));
    let of_counts = json!({ "audienceId": 1, "noticeIds": [notice.to_string()] });
    let of_readers = json!({ "audienceId": 1, "noticeId": notice.to_string(), "state": "READER_STATE_READ" });
    let calls = [
        ("CountNotices", of_reader.clone()),
        ("ListNotices", of_reader),
        ("MarkRead", of_notices.clone()),
        ("MarkUnread", of_notices.clone()),
        ("GetReadState", of_notices),
        ("CountReaders", of_counts.clone()),
        ("ListReaders", of_readers.clone()),
        ("RegisterReaders", json!({ "audienceId": 1 })),
    ];
    for (method, right) in &calls {
        for audience_id in AUDIENCES {
            let body = with(right.clone(), json!({ "audienceId": audience_id }));
            assert_field_refused(&node, &path(method), &body, "audience_id", "must be from 1").await;
        }
        let body = with(right.clone(), json!({ "audienceId": 2 }));
        assert_eq!(called(&node, &path(method), &body).await.code, "not_found", "{method}");
    }
    for id in IDS {
        for (method, right) in &calls[..5] {
            if (*method, id) != ("ListNotices", "0") {
                let body = with(right.clone(), json!({ "readerId": id }));
                assert_field_refused(&node, &path(method), &body, "reader_id", "must be above 0").await;
            }
        }
        for (method, right) in &calls[2..6] {
            let body = with(right.clone(), json!({ "noticeIds": [id] }));
            assert_field_refused(&node, &path(method), &body, "notice_ids", "must be above 0").await;
        }
        for method in ["GetNotice", "DeleteNotice"] {
            let body = json!({ "noticeId": id });
            assert_field_refused(&node, &path(method), &body, "notice_id", "must be above 0").await;
        }
        let body = json!({ "notice": { "noticeId": id } });
        assert_field_refused(&node, &path("UpdateNotice"), &body, "notice_id", "must be above 0").await;
        let body = with(of_readers.clone(), json!({ "noticeId": id }));
        assert_field_refused(&node, &path("ListReaders"), &body, "notice_id", "must be above 0").await;
        let body = json!({ "audienceId": 1, "readers": [{ "readerId": id }] });
        assert_field_refused(&node, &path("RegisterReaders"), &body, "reader_id", "must be above 0").await;
    }
    for (at, most) in [(2, 1_000), (3, 1_000), (4, 1_000), (5, 100)] {
        let (method, right) = &calls[at];
        let body = with(right.clone(), json!({ "noticeIds": vec!["1"; most + 1] }));
        let why = format!("must hold at most {most}");
        assert_field_refused(&node, &path(method), &body, "notice_ids", &why).await;
    }
    let body = json!({ "audienceId": 1, "readers": vec![json!({ "readerId": "1" }); 1_001] });
    assert_field_refused(&node, &path("RegisterReaders"), &body, "readers", "must hold at most 1000").await;
    assert_eq!(totals(&node, 1, 7).await, (0, 1, 0), "nothing was marked");
    node.assert_healthy().await;
}

#[tokio::test]
async fn contradicting_pages_and_marks_are_refused() {
    let node = node_with_audience(|_| {}).await;
    let notice = publish(&node, new_notice(&[1])).await.notice_id;
    mark(&node, 1, 7, &[notice]).await;
    let readers = json!({ "audienceId": 1, "noticeId": notice.to_string(), "state": "READER_STATE_READ" });
    for (method, right) in
        [("ListNotices", json!({ "audienceId": 1, "readerId": "7" })), ("ListReaders", readers.clone())]
    {
        let body = with(right.clone(), json!({ "pageSize": -1 }));
        assert_field_refused(&node, &path(method), &body, "page_size", "must not be below 0").await;
        let body = with(right, json!({ "pageToken": "garbage" }));
        assert_field_refused(&node, &path(method), &body, "page_token", "must").await;
    }
    for state in [0, 5, -1] {
        let body = with(readers.clone(), json!({ "state": state }));
        assert_field_refused(&node, &path("ListReaders"), &body, "state", "must be one of").await;
    }
    let body = json!({ "audienceId": 1, "readerId": "7", "all": true, "noticeIds": ["1"] });
    assert_field_refused(&node, &path("MarkRead"), &body, "notice_ids", "must be empty").await;
    let body = json!({ "notice": { "noticeId": notice.to_string() }, "expectedVersion": "-1" });
    assert_field_refused(&node, &path("UpdateNotice"), &body, "expected_version", "must not be below 0")
        .await;
    node.assert_healthy().await;
}
