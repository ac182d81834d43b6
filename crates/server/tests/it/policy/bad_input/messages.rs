//! Bad message input: the same code and field by gRPC and by JSON, and nothing stored.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kith_proto::message::v1::{GetSeqByTimeRequest, SendMessageRequest, send_message_request::To};
use serde_json::json;

use super::{WRONG_IDS, assert_all_refused, assert_field_refused, called, called_once, with};
use crate::group_calls::chat;
use crate::message_calls::{fill, read_all, say, send_batch, text, with_id};
use crate::node::{TestNode, assert_invalid};
use crate::relation_calls::{node_with_users, with_users};

/// The size of the largest body.
const BODY: usize = 64 * 1024;

/// Starts a node with a user and its group.
async fn started() -> (TestNode, i64, i64) {
    let (node, [ann]) = with_users().await;
    let group = chat(&node, ann, &[]).await;
    (node, ann, group)
}

#[tokio::test]
async fn conversations_of_every_wrong_form_are_refused() {
    let (node, ann, _) = started().await;
    for id in WRONG_IDS {
        let (to, of) = (
            json!({ "conversationId": id, "body": "aGk=", "senderId": ann }),
            json!({ "conversationId": id }),
        );
        assert_field_refused(&node, "SendMessage", &to, "conversation_id", "must").await;
        assert_field_refused(&node, "PullMessages", &of, "conversation_id", "must").await;
        assert_field_refused(&node, "PullBySeqs", &of, "conversation_id", "must").await;
        assert_field_refused(&node, "History", &of, "conversation_id", "must").await;
        let by_time = with(of, json!({ "time": "2026-01-01T00:00:00Z" }));
        assert_field_refused(&node, "GetSeqByTime", &by_time, "conversation_id", "must").await;
        let several = json!({ "conversationIds": ["g9", id] });
        assert_field_refused(&node, "GetMaxSeqs", &several, "conversation_ids", "must").await;
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn sends_with_a_wrong_field_are_refused() {
    let (node, ann, group) = started().await;
    let right = json!({ "groupId": group, "senderId": ann, "contentType": "text/plain", "body": "aGk=" });
    let wrong = [
        (json!({ "groupId": null }), "to", "must be given"),
        (json!({ "groupId": 0 }), "group_id", "must be above 0"),
        (json!({ "groupId": -1 }), "group_id", "must be above 0"),
        (json!({ "groupId": null, "userId": 0 }), "user_id", "must be above 0"),
        (json!({ "groupId": null, "userId": i64::MIN.to_string() }), "user_id", "must be above 0"),
        (json!({ "groupId": null, "userId": ann, "senderId": 0 }), "user_id", "without a sender"),
        (json!({ "senderId": -1 }), "sender_id", "must be above 0"),
        (json!({ "clientMessageId": "a b" }), "client_message_id", "must be 1 to 64 of A-Z a-z 0-9 _ -"),
        (json!({ "clientMessageId": "ä" }), "client_message_id", "must be 1 to 64"),
        (json!({ "clientMessageId": "a:b" }), "client_message_id", "must be 1 to 64"),
        (json!({ "clientMessageId": "a".repeat(65) }), "client_message_id", "must be 1 to 64"),
        (json!({ "contentType": "text\nplain" }), "content_type", "must be at most 128"),
        (json!({ "contentType": "a".repeat(129) }), "content_type", "must be at most 128"),
        (json!({ "contentType": "", "body": "" }), "body", "must not be empty"),
        (json!({ "body": STANDARD.encode(vec![7; BODY + 1]) }), "body", "at most 65536 bytes"),
        (json!({ "mentionIds": vec![7; 51] }), "mention_ids", "must hold at most 50"),
        (json!({ "mentionIds": [7, 0] }), "mention_ids", "must be above 0"),
        (json!({ "mentionIds": [-7] }), "mention_ids", "must be above 0"),
        (json!({ "replyToSeq": -1 }), "reply_to_seq", "must not be below 0"),
    ];
    let wrong = wrong.map(|(fields, field, why)| ("SendMessage", with(right.clone(), fields), field, why));
    assert_all_refused(&node, wrong).await;
    assert_eq!(read_all(&node, ann, &format!("g{group}")).await, [""; 0]);
}

#[tokio::test]
async fn sends_at_the_limits_are_taken() {
    let (node, ann, group) = started().await;
    let right = json!({ "groupId": group, "senderId": ann, "contentType": "text/plain", "body": "aGk=" });
    let fine = [
        json!({ "clientMessageId": "aZ09_-".repeat(10) + "aaaa" }),
        json!({ "contentType": "", "body": "aGk=" }),
        json!({ "contentType": "x", "body": "" }),
        json!({ "contentType": "a".repeat(128) }),
        json!({ "mentionIds": vec![i64::MAX.to_string(); 50] }),
        // The answered message is not looked up.
        json!({ "replyToSeq": i64::MAX.to_string() }),
        json!({ "body": STANDARD.encode(vec![7; BODY]) }),
    ];
    for (seq, fields) in (1..).zip(fine) {
        let outcome = called_once(&node, "SendMessage", &with(right.clone(), fields.clone())).await;
        let got = (outcome.code.as_str(), &outcome.answer["seq"]);
        assert_eq!(got, ("ok", &json!(format!("{seq}"))), "{fields}");
    }
}

#[tokio::test]
async fn configured_limit_of_a_body_is_named() {
    let (node, [ann]) = node_with_users(|config| config.messages.body_bytes_max = 10).await;
    let body = |bytes| json!({ "userId": ann, "senderId": ann, "body": STANDARD.encode(vec![7; bytes]) });
    assert_field_refused(&node, "SendMessage", &body(11), "body", "at most 10 bytes").await;
    assert_eq!(called_once(&node, "SendMessage", &body(10)).await.code, "ok");
}

#[tokio::test]
async fn reads_with_a_wrong_field_are_refused() {
    let (node, _, group) = started().await;
    let of = |fields| with(json!({ "conversationId": format!("g{group}") }), fields);
    let at_least = |positions| json!({ "atLeast": positions });
    let wrong = [
        ("PullMessages", of(json!({ "fromSeq": -1 })), "from_seq", "must not be below 0"),
        ("PullMessages", of(json!({ "toSeq": i64::MIN.to_string() })), "to_seq", "must not be below 0"),
        ("PullMessages", of(json!({ "fromSeq": 5, "toSeq": 4 })), "to_seq", "must not be below from_seq"),
        ("PullMessages", of(json!({ "limit": -1 })), "limit", "must not be below 0"),
        ("PullMessages", of(json!({ "atLeastSeq": -1 })), "at_least_seq", "must not be below 0"),
        ("PullMessages", of(json!({ "userId": -1 })), "user_id", "must be above 0"),
        ("PullBySeqs", of(json!({ "seqs": [1, 0] })), "seqs", "must be above 0"),
        ("PullBySeqs", of(json!({ "seqs": [-1] })), "seqs", "must be above 0"),
        ("PullBySeqs", of(json!({ "seqs": vec![1; 101] })), "seqs", "must hold at most 100"),
        ("PullBySeqs", of(json!({ "seqs": vec![1; 1_001] })), "seqs", "must hold at most 100"),
        ("PullBySeqs", of(json!({ "userId": -1 })), "user_id", "must be above 0"),
        ("History", of(json!({ "beforeSeq": -1 })), "before_seq", "must not be below 0"),
        ("History", of(json!({ "limit": i32::MIN })), "limit", "must not be below 0"),
        ("History", of(json!({ "atLeastSeq": -1 })), "at_least_seq", "must not be below 0"),
        ("History", of(json!({ "userId": -1 })), "user_id", "must be above 0"),
        ("GetSeqByTime", of(json!({})), "time", "must be given"),
        ("GetSeqByTime", of(json!({ "time": "1969-12-31T23:59:59Z" })), "time", "must be a moment"),
        ("GetSeqByTime", of(json!({ "userId": -1, "time": "2026-01-01T00:00:00Z" })), "user_id", "above 0"),
        ("RecallMessage", of(json!({})), "seq", "must be above 0"),
        ("RecallMessage", of(json!({ "seq": -1 })), "seq", "must be above 0"),
        ("RecallMessage", of(json!({ "seq": 1, "userId": -1 })), "user_id", "must be above 0"),
        ("RecallMessage", json!({ "seq": 1 }), "conversation_id", "must be"),
        ("React", of(json!({ "seq": 1, "kind": "a" })), "user_id", "must be given"),
        ("React", of(json!({ "userId": 1, "kind": "a" })), "seq", "must be above 0"),
        ("React", of(json!({ "userId": 1, "seq": 1 })), "kind", "must have 1 to 32 bytes; it has 0"),
        ("Unreact", of(json!({ "userId": 1, "seq": 1, "kind": "x".repeat(33) })), "kind", "it has 33"),
        ("Unreact", of(json!({ "userId": 1, "seq": 1, "kind": "a\n" })), "kind", "U+000A"),
        ("BatchGetReactions", of(json!({ "seqs": [0] })), "seqs", "must be above 0"),
        ("BatchGetReactions", of(json!({ "seqs": vec![1; 101] })), "seqs", "must hold at most 100"),
        ("ListReactions", of(json!({ "kind": "a" })), "seq", "must be above 0"),
        ("ListReactions", of(json!({ "seq": 1, "kind": "e\u{301}" })), "kind", "form NFC"),
        ("ListReactions", of(json!({ "seq": 1, "kind": "a", "pageSize": -1 })), "page_size", "below 0"),
        ("GetMaxSeqs", json!({ "conversationIds": vec!["g9"; 1_001] }), "conversation_ids", "at most 1000"),
        ("GetMaxSeqs", json!({ "userId": -1 }), "user_id", "must be above 0"),
        ("GetMaxSeqs", at_least(json!([{ "seq": 1 }])), "at_least.conversation_id", "must be"),
        ("GetMaxSeqs", at_least(json!([{ "conversationId": "g9", "seq": -1 }])), "at_least.seq", "below 0"),
        ("GetMaxSeqs", at_least(json!(vec![json!({}); 101])), "at_least", "at most 100"),
        ("BatchSend", json!({ "messages": vec![json!({}); 101] }), "messages", "must hold at most 100"),
    ];
    assert_all_refused(&node, wrong).await;
}

#[tokio::test]
async fn edits_with_a_wrong_field_are_refused() {
    let (node, ann, group) = started().await;
    let id = format!("g{group}");
    say(&node, ann, To::GroupId(group), "hi").await.unwrap();
    let right = json!({ "conversationId": id, "seq": 1, "contentType": "text/plain", "body": "aGk=" });
    let wrong = [
        (json!({ "seq": 0 }), "seq", "must be above 0"),
        (json!({ "seq": i64::MIN.to_string() }), "seq", "must be above 0"),
        (json!({ "userId": -1 }), "user_id", "must be above 0"),
        (json!({ "conversationId": "d8-7" }), "conversation_id", "must"),
        (json!({ "contentType": "text\nplain" }), "content_type", "must be at most 128"),
        (json!({ "contentType": "", "body": "" }), "body", "must not be empty"),
        (json!({ "body": STANDARD.encode(vec![7; BODY + 1]) }), "body", "at most 65536 bytes"),
        (json!({ "mentions": { "userIds": vec![7; 51] } }), "mentions.user_ids", "must hold at most 50"),
        (json!({ "mentions": { "userIds": [7, 0] } }), "mentions.user_ids", "must be above 0"),
        (json!({ "expectedEdits": -1 }), "expected_edits", "must not be below 0"),
    ];
    let wrong = wrong.map(|(fields, field, why)| ("EditMessage", with(right.clone(), fields), field, why));
    assert_all_refused(&node, wrong).await;
    assert_eq!(read_all(&node, ann, &id).await, ["hi"]);
}

#[tokio::test]
async fn times_that_are_none_are_refused() {
    let (node, _, group) = started().await;
    for (seconds, nanos) in [
        (i64::MIN, 0),
        (i64::MAX, 0),
        (-1, 0),
        (253_402_300_800, 0),
        (1, -1),
        (1, 1_000_000_000),
        (1, i32::MIN),
    ] {
        let request = GetSeqByTimeRequest {
            conversation_id: format!("g{group}"),
            time: Some(prost_types::Timestamp { seconds, nanos }),
            ..Default::default()
        };
        assert_invalid(node.messages().get_seq_by_time(request).await, "time");
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn wrong_batch_messages_are_refused_singly() {
    let (node, _, group) = started().await;
    let to = || To::GroupId(group);
    let messages = vec![
        text(To::ConversationId("d8-7".into()), "hi"),
        text(to(), "first"),
        with_id(to(), "a:b", "hi"),
        text(to(), ""),
        SendMessageRequest { content_type: String::new(), ..text(to(), "") },
        text(to(), &"x".repeat(BODY + 1)),
        SendMessageRequest { mention_ids: vec![7; 51], ..text(to(), "hi") },
        text(to(), "last"),
    ];
    let refused = |field: &str| Err(("INVALID_FIELD".to_owned(), field.to_owned()));
    let expected = [
        refused("conversation_id"),
        Ok((1, false)),
        refused("client_message_id"),
        Ok((2, false)),
        refused("body"),
        refused("body"),
        refused("mention_ids"),
        Ok((3, false)),
    ];
    assert_eq!(send_batch(&node, messages).await, expected);
    node.assert_healthy().await;
}

#[tokio::test]
async fn empty_batches_are_answered_empty() {
    let (node, ..) = started().await;
    assert_eq!(send_batch(&node, Vec::new()).await, []);
    let no_ids = called(&node, "GetMaxSeqs", &json!({})).await;
    assert_eq!((no_ids.code.as_str(), no_ids.answer), ("ok", json!({})));
}

#[tokio::test]
async fn numbers_beyond_the_end_are_answered() {
    let (node, _, group) = started().await;
    let id = format!("g{group}");
    fill(&node, &id, 3).await;
    let max = i64::MAX.to_string();
    let seqs = async |method, fields| {
        let outcome = called(&node, method, &with(json!({ "conversationId": id }), fields)).await;
        assert_eq!(outcome.code, "ok", "{outcome:?}");
        let messages = outcome.answer["messages"].as_array().cloned().unwrap_or_default();
        messages.iter().map(|message| message["seq"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(seqs("PullMessages", json!({ "fromSeq": 4 })).await, [""; 0]);
    assert_eq!(seqs("PullMessages", json!({ "fromSeq": max, "toSeq": max })).await, [""; 0]);
    assert_eq!(seqs("PullMessages", json!({ "fromSeq": 3, "toSeq": max, "limit": 1001 })).await, ["3"]);
    assert_eq!(seqs("PullMessages", json!({ "limit": i32::MAX, "atLeastSeq": max })).await, ["1", "2", "3"]);
    assert_eq!(seqs("History", json!({ "beforeSeq": max, "limit": 1 })).await, ["3"]);
    assert_eq!(seqs("History", json!({ "beforeSeq": 1, "atLeastSeq": max })).await, [""; 0]);
    assert_eq!(seqs("PullBySeqs", json!({ "seqs": [4, max, 2, 2] })).await, ["2"]);
    let last = json!({ "conversationId": id, "time": "9999-12-31T23:59:59.999Z" });
    assert_eq!(called(&node, "GetSeqByTime", &last).await.answer, json!({ "seq": "4" }));
    let known = json!({ "conversationIds": [id], "atLeast": [{ "conversationId": id, "seq": max }] });
    let answer = called(&node, "GetMaxSeqs", &known).await.answer;
    assert_eq!(answer["results"][0]["maxSeq"], json!("3"));
    node.assert_healthy().await;
}
