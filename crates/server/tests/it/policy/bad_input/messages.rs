//! Bad message input: the same code and field by gRPC and by JSON, and nothing stored.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kith_proto::message::v1::{SendMessageRequest, send_message_request::To};
use serde_json::json;

use super::{assert_all_refused, assert_field_refused, called, called_once, with};
use crate::group_calls::chat;
use crate::message_calls::{read_all, say, send_batch, text, with_id};
use crate::node::TestNode;
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
async fn sends_with_a_wrong_field_are_refused() {
    let (node, ann, group) = started().await;
    let right = json!({ "groupId": group, "senderId": ann, "contentType": "text/plain", "body": "aGk=" });
    let wrong = [
        (json!({ "groupId": null }), "to", "must be given"),
        (json!({ "groupId": 0 }), "group_id", "must be above 0"),
        (json!({ "groupId": null, "userId": 0 }), "user_id", "must be above 0"),
        (json!({ "groupId": null, "userId": ann, "senderId": 0 }), "user_id", "without a sender"),
        (json!({ "clientMessageId": "a b" }), "client_message_id", "must be 1 to 64 of A-Z a-z 0-9 _ -"),
        (json!({ "contentType": "text\nplain" }), "content_type", "must be at most 128"),
        (json!({ "contentType": "a".repeat(129) }), "content_type", "must be at most 128"),
        (json!({ "contentType": "", "body": "" }), "body", "must not be empty"),
        (json!({ "body": STANDARD.encode(vec![7; BODY + 1]) }), "body", "at most 65536 bytes"),
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
async fn other_calls_with_a_wrong_field_are_refused() {
    let (node, ann, group) = started().await;
    let of = |fields| with(json!({ "conversationId": format!("g{group}") }), fields);
    let wrong = [
        ("PullMessages", of(json!({ "fromSeq": 5, "toSeq": 4 })), "to_seq", "must not be below from_seq"),
        ("GetSeqByTime", of(json!({})), "time", "must be given"),
        ("React", of(json!({ "seq": 1, "kind": "a" })), "user_id", "must be given"),
        ("React", of(json!({ "userId": 1, "seq": 1 })), "kind", "must have 1 to 32 bytes; it has 0"),
        ("Unreact", of(json!({ "userId": 1, "seq": 1, "kind": "x".repeat(33) })), "kind", "it has 33"),
        ("Unreact", of(json!({ "userId": 1, "seq": 1, "kind": "a\n" })), "kind", "U+000A"),
        ("ListReactions", of(json!({ "seq": 1, "kind": "e\u{301}" })), "kind", "form NFC"),
    ];
    assert_all_refused(&node, wrong).await;
    let id = format!("g{group}");
    say(&node, ann, To::GroupId(group), "hi").await.unwrap();
    let right = json!({ "conversationId": id, "seq": 1, "contentType": "text/plain", "body": "aGk=" });
    let wrong = [
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
    assert_eq!(send_batch(&node, Vec::new()).await, []);
    let no_ids = called(&node, "GetMaxSeqs", &json!({})).await;
    assert_eq!((no_ids.code.as_str(), no_ids.answer), ("ok", json!({})));
}
