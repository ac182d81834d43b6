//! Bad dialog input: the same code, reason and field by gRPC and by JSON, and nothing written.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use super::{assert_all_refused, called, called_once, with};
use crate::dialog_calls::{conversation, read};
use crate::message_calls::filled_by_service;
use crate::node::TestNode;

/// Checks that no dialog was written and nothing trimmed.
async fn assert_unchanged(node: &TestNode, user: i64, id: &str) {
    let seen = conversation(node, user, id).await.unwrap();
    assert_eq!((seen.version, seen.min_seq, seen.max_seq, seen.unread), (0, 1, 3, 3));
    node.assert_healthy().await;
}

#[tokio::test]
async fn writes_with_a_wrong_field_are_refused() {
    let (node, ann, group) = filled_by_service(3).await;
    let of = |fields| with(json!({ "userId": ann, "conversationId": group }), fields);
    let settings =
        |fields| with(of(json!({ "settings": { "pinned": true }, "updateMask": "pinned" })), fields);
    let ranges = |count: usize| vec![json!({ "first": 1, "last": 1 }); count];
    let long_ext = json!({ "settings": { "ext": STANDARD.encode([7; 1025]) }, "updateMask": "ext" });
    let wrong = [
        ("MarkRead", of(json!({})), "up_to", "must be given"),
        ("MarkRead", of(json!({ "upTo": 0 })), "up_to", "must be given"),
        ("MarkRead", of(json!({ "upTo": -1 })), "up_to", "must not be below 0"),
        ("MarkRead", of(json!({ "upTo": i64::MIN.to_string() })), "up_to", "must not be below 0"),
        ("MarkRead", of(json!({ "upTo": 1, "ranges": ranges(1) })), "ranges", "must not be given"),
        ("MarkRead", of(json!({ "ranges": ranges(1), "hidden": true })), "hidden", "must not be given"),
        ("MarkRead", of(json!({ "ranges": [{ "last": 1 }] })), "ranges.first", "must be above 0"),
        ("MarkRead", of(json!({ "ranges": [{ "first": -1, "last": 1 }] })), "ranges.first", "above 0"),
        ("MarkRead", of(json!({ "ranges": [{ "first": 3, "last": 2 }] })), "ranges.last", "below first"),
        ("UpdateDialog", settings(json!({ "updateMask": "" })), "update_mask", "must name a field"),
        ("UpdateDialog", settings(json!({ "updateMask": null })), "update_mask", "must name a field"),
        ("UpdateDialog", settings(json!({ "updateMask": "pinned,version" })), "update_mask", "fields out of"),
        ("UpdateDialog", settings(json!({ "updateMask": "settings.pinned" })), "update_mask", "fields"),
        ("UpdateDialog", settings(json!({ "settings": null })), "settings", "must be given"),
        ("UpdateDialog", of(long_ext), "settings.ext", "1024"),
        ("SetUserSeqRange", of(json!({ "minSeq": 0 })), "min_seq", "must be above 0"),
        ("TrimConversation", json!({ "conversationId": group }), "min_seq", "must be above 0"),
    ];
    assert_all_refused(&node, wrong).await;
    assert_unchanged(&node, ann, &group).await;
}

#[tokio::test]
async fn marks_and_trims_beyond_the_end_are_refused() {
    let (node, ann, group) = filled_by_service(3).await;
    let max = i64::MAX.to_string();
    let of = |fields| with(json!({ "userId": ann, "conversationId": group }), fields);
    let trim = |min_seq: &str| json!({ "conversationId": group, "minSeq": min_seq });
    for (method, body) in [
        ("MarkRead", of(json!({ "upTo": 4 }))),
        ("MarkRead", of(json!({ "upTo": max }))),
        ("MarkRead", of(json!({ "upTo": max, "hidden": true }))),
        ("MarkRead", of(json!({ "ranges": [{ "first": 3, "last": 4 }] }))),
        ("MarkRead", of(json!({ "ranges": [{ "first": max, "last": max }] }))),
        ("MarkRead", of(json!({ "ranges": [{ "first": 1, "last": max }] }))),
        ("TrimConversation", trim("5")),
        ("TrimConversation", trim(&max)),
    ] {
        let outcome = called(&node, method, &body).await;
        let refused = (outcome.code.as_str(), outcome.reason());
        assert_eq!(refused, ("out_of_range", Some("SEQ_OUT_OF_RANGE".into())), "{method} {body}");
    }
    assert_unchanged(&node, ann, &group).await;
}

#[tokio::test]
async fn calls_at_the_limits_are_taken() {
    let (node, ann, group) = filled_by_service(3).await;
    let max = i64::MAX.to_string();
    let of = |fields| with(json!({ "userId": ann, "conversationId": group }), fields);
    let list = |fields| with(json!({ "userId": ann }), fields);
    let ext = json!({ "settings": { "ext": STANDARD.encode([7; 1024]) }, "updateMask": "ext" });
    let ranges = vec![json!({ "first": 1, "last": 1 }); 100];
    let position = json!({ "conversationId": group, "seq": max });
    for (method, body) in [
        ("MarkRead", of(json!({ "ranges": ranges }))),
        ("UpdateDialog", of(ext)),
        ("UpdateDialog", of(json!({ "settings": { "pinned": true }, "updateMask": "*" }))),
        ("ListConversations", list(json!({ "pageSize": i32::MAX, "atLeast": vec![&position; 100] }))),
        ("CountUnread", list(json!({ "conversationIds": vec![&group; 1000], "atLeast": [position] }))),
        ("CountUnread", list(json!({ "atLeast": [{ "conversationId": "d1-2", "seq": 0 }] }))),
        ("GetReadSeqs", list(json!({ "conversationIds": vec![&group; 1000] }))),
        ("GetReadSeqs", list(json!({}))),
    ] {
        let outcome = called_once(&node, method, &body).await;
        assert_eq!(outcome.code, "ok", "{method} {body}: {outcome:?}");
    }
    assert_eq!(read(&node, ann, &group).await.read_seq, 1);
    node.assert_healthy().await;
}

/// The largest numbers hide all messages, and make no call fail.
#[tokio::test]
async fn ranges_up_to_the_largest_number_are_taken() {
    let (node, ann, group) = filled_by_service(3).await;
    let max = i64::MAX.to_string();
    let of = |fields| with(json!({ "userId": ann, "conversationId": group }), fields);
    for (range, shown) in [
        (json!({ "minSeq": max, "maxSeq": max }), 0),
        (json!({ "minSeq": max, "maxSeq": 0 }), 0),
        (json!({ "minSeq": 3, "maxSeq": 2 }), 0),
        (json!({ "maxSeq": max }), 3),
    ] {
        let outcome = called_once(&node, "SetUserSeqRange", &of(range.clone())).await;
        assert_eq!(outcome.code, "ok", "{range}: {outcome:?}");
        for method in ["PullMessages", "History"] {
            let outcome = called_once(&node, method, &of(json!({}))).await;
            let messages = outcome.answer["messages"].as_array().map_or(0, Vec::len);
            assert_eq!((outcome.code.as_str(), messages), ("ok", shown), "{range} {outcome:?}");
        }
        for (method, body) in [
            ("PullBySeqs", of(json!({ "seqs": [1, max] }))),
            ("GetSeqByTime", of(json!({ "time": "2026-01-01T00:00:00Z" }))),
            ("GetConversation", of(json!({}))),
            ("ListConversations", json!({ "userId": ann })),
            ("CountUnread", json!({ "userId": ann })),
            ("MarkRead", of(json!({ "ranges": [{ "first": 1, "last": 3 }] }))),
        ] {
            let outcome = called_once(&node, method, &body).await;
            assert_eq!(outcome.code, "ok", "{range} {method}: {outcome:?}");
        }
    }
    node.assert_healthy().await;
}
