//! Bad dialog input: the same code, reason and field by gRPC and by JSON, and nothing written.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{WRONG_IDS, assert_all_refused, assert_field_refused, called, called_once, rpc, with};
use crate::dialog_calls::{conversation, read};
use crate::message_calls::filled_by_service;
use crate::node::TestNode;

/// Returns calls that take one conversation, with their other fields.
fn calls_of_one(user: i64) -> [(&'static str, Value); 7] {
    [
        ("GetConversation", json!({ "userId": user })),
        ("MarkRead", json!({ "userId": user, "upTo": 1 })),
        ("UpdateDialog", json!({ "userId": user, "settings": { "pinned": true }, "updateMask": "pinned" })),
        ("HideConversation", json!({ "userId": user })),
        ("ClearConversation", json!({ "userId": user })),
        ("SetUserSeqRange", json!({ "userId": user, "minSeq": 2 })),
        ("TrimConversation", json!({ "minSeq": 2 })),
    ]
}

#[tokio::test]
async fn conversations_of_every_wrong_form_are_refused() {
    let (node, ann, group) = filled_by_service(3).await;
    for id in WRONG_IDS {
        for (method, fields) in calls_of_one(ann) {
            let body = with(fields, json!({ "conversationId": id }));
            assert_field_refused(&node, method, &body, "conversation_id", "must").await;
        }
        for method in ["CountUnread", "GetReadSeqs"] {
            let body = json!({ "userId": ann, "conversationIds": [group, id] });
            assert_field_refused(&node, method, &body, "conversation_ids", "must").await;
        }
        for method in ["CountUnread", "ListConversations"] {
            let body = json!({ "userId": ann, "atLeast": [{ "conversationId": id, "seq": 1 }] });
            assert_field_refused(&node, method, &body, "at_least.conversation_id", "must").await;
        }
    }
    assert_unchanged(&node, ann, &group).await;
}

/// Checks that no dialog was written and nothing trimmed.
async fn assert_unchanged(node: &TestNode, user: i64, id: &str) {
    let seen = conversation(node, user, id).await.unwrap();
    assert_eq!((seen.version, seen.min_seq, seen.max_seq, seen.unread), (0, 1, 3, 3));
    node.assert_healthy().await;
}

#[tokio::test]
async fn users_that_are_none_are_refused() {
    let (node, _, group) = filled_by_service(3).await;
    let all = ["ListConversations", "CountUnread", "GetReadSeqs", "CreateConversation"];
    let of_one = calls_of_one(-1).into_iter().filter(|(method, _)| *method != "TrimConversation");
    for (method, fields) in of_one.chain(all.map(|method| (method, json!({ "otherUserId": 7 })))) {
        let takes = rpc(method).input;
        let mut body = with(fields, json!({ "conversationId": group }));
        body.as_object_mut().unwrap().retain(|name, _| takes.get_field_by_json_name(name).is_some());
        for user in [-1, i64::MIN] {
            let body = with(body.clone(), json!({ "userId": user.to_string() }));
            assert_field_refused(&node, method, &body, "user_id", "must be above 0").await;
        }
        let by_service = with(body, json!({ "userId": 0 }));
        assert_field_refused(&node, method, &by_service, "user_id", "must be given").await;
    }
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
        ("CreateConversation", json!({ "userId": ann }), "other_user_id", "must be above 0"),
        ("CreateConversation", json!({ "userId": ann, "otherUserId": -1 }), "other_user_id", "above 0"),
        ("MarkRead", of(json!({})), "up_to", "must be given"),
        ("MarkRead", of(json!({ "upTo": 0 })), "up_to", "must be given"),
        ("MarkRead", of(json!({ "upTo": -1 })), "up_to", "must not be below 0"),
        ("MarkRead", of(json!({ "upTo": i64::MIN.to_string() })), "up_to", "must not be below 0"),
        ("MarkRead", of(json!({ "upTo": 1, "ranges": ranges(1) })), "ranges", "must not be given"),
        ("MarkRead", of(json!({ "ranges": ranges(1), "hidden": true })), "hidden", "must not be given"),
        ("MarkRead", of(json!({ "ranges": ranges(101) })), "ranges", "must hold at most 100"),
        ("MarkRead", of(json!({ "ranges": [{ "last": 1 }] })), "ranges.first", "must be above 0"),
        ("MarkRead", of(json!({ "ranges": [{ "first": -1, "last": 1 }] })), "ranges.first", "above 0"),
        ("MarkRead", of(json!({ "ranges": [{ "first": 3, "last": 2 }] })), "ranges.last", "below first"),
        ("UpdateDialog", settings(json!({ "updateMask": "" })), "update_mask", "must name a field"),
        ("UpdateDialog", settings(json!({ "updateMask": null })), "update_mask", "must name a field"),
        ("UpdateDialog", settings(json!({ "updateMask": "noSuch" })), "update_mask", "must name fields"),
        ("UpdateDialog", settings(json!({ "updateMask": "pinned,version" })), "update_mask", "fields out of"),
        ("UpdateDialog", settings(json!({ "updateMask": "settings.pinned" })), "update_mask", "fields"),
        ("UpdateDialog", settings(json!({ "settings": null })), "settings", "must be given"),
        ("UpdateDialog", of(long_ext), "settings.ext", "1024"),
        ("UpdateDialog", settings(json!({ "expectedVersion": -1 })), "expected_version", "below 0"),
        ("UpdateDialog", settings(json!({ "requestId": "a:b" })), "request_id", "must"),
        ("HideConversation", of(json!({ "requestId": "a b" })), "request_id", "must"),
        ("ClearConversation", of(json!({ "requestId": "a".repeat(65) })), "request_id", "must"),
        ("SetUserSeqRange", of(json!({ "minSeq": 0 })), "min_seq", "must be above 0"),
        ("SetUserSeqRange", of(json!({ "minSeq": -1 })), "min_seq", "must be above 0"),
        ("SetUserSeqRange", of(json!({ "maxSeq": -1 })), "max_seq", "must not be below 0"),
        ("SetUserSeqRange", of(json!({ "expectedVersion": -1 })), "expected_version", "below 0"),
        ("TrimConversation", json!({ "conversationId": group }), "min_seq", "must be above 0"),
        ("TrimConversation", json!({ "conversationId": group, "minSeq": -1 }), "min_seq", "above 0"),
    ];
    assert_all_refused(&node, wrong).await;
    assert_unchanged(&node, ann, &group).await;
}

#[tokio::test]
async fn lists_with_a_wrong_field_are_refused() {
    let (node, ann, group) = filled_by_service(3).await;
    let of = |fields| with(json!({ "userId": ann }), fields);
    let positions = |count: usize| vec![json!({ "conversationId": group, "seq": 1 }); count];
    let below = json!({ "atLeast": [{ "conversationId": group, "seq": -1 }] });
    let wrong = [
        ("ListConversations", of(json!({ "pageSize": -1 })), "page_size", "must"),
        ("ListConversations", of(json!({ "pageSize": i32::MIN })), "page_size", "must"),
        ("ListConversations", of(json!({ "pageToken": "forged" })), "page_token", "must"),
        ("ListConversations", of(json!({ "atLeast": positions(101) })), "at_least", "at most 100"),
        ("ListConversations", of(below.clone()), "at_least.seq", "must not be below 0"),
        ("CountUnread", of(json!({ "atLeast": positions(101) })), "at_least", "at most 100"),
        ("CountUnread", of(below), "at_least.seq", "must not be below 0"),
        (
            "CountUnread",
            of(json!({ "conversationIds": vec![&group; 1001] })),
            "conversation_ids",
            "at most 1000",
        ),
        (
            "GetReadSeqs",
            of(json!({ "conversationIds": vec![&group; 1001] })),
            "conversation_ids",
            "at most 1000",
        ),
    ];
    assert_all_refused(&node, wrong).await;
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
