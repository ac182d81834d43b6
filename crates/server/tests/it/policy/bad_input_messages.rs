//! Bad input of messages: the same code and field by gRPC and by JSON, and nothing stored.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost_reflect::DynamicMessage;
use serde_json::{Value, json};

use crate::equal::{Outcome, Rpc, by_grpc, by_json, rpcs};
use crate::http::Connection;
use crate::messaging::{chat, read_all};
use crate::node::TestNode;
use crate::relating;

/// The largest body.
const BODY: usize = 64 * 1024;

fn rpc(method: &str) -> Rpc {
    let path = format!("/kith.message.v1.MessageService/{method}");
    rpcs().into_iter().find(|rpc| rpc.path == path).unwrap()
}

/// A node with a user and a group of it.
async fn started() -> (TestNode, i64, i64) {
    let node = TestNode::start_with_relations(|_| {}).await;
    let [ann] = relating::users(&node).await;
    let group = chat(&node, ann, &[]).await;
    (node, ann, group)
}

/// What comes of a call, the same both ways.
async fn called(node: &TestNode, method: &str, body: &Value) -> Outcome {
    let rpc = rpc(method);
    let message = DynamicMessage::deserialize(rpc.input.clone(), body.clone()).unwrap();
    let mut connection = Connection::open(node.address).await;
    let by_json = by_json(&mut connection, &rpc, &[], body).await;
    assert_eq!(by_json, by_grpc(node, &rpc, &[], &message).await, "{method} {body}");
    by_json
}

/// Checks that a call is refused because of a field; `why` is a part of the text that follows its name.
async fn assert_field_refused(node: &TestNode, method: &str, body: &Value, field: &str, why: &str) {
    let outcome = called(node, method, body).await;
    assert_eq!(outcome.code, "invalid_argument", "{method} {body}: {outcome:?}");
    assert_eq!(outcome.field().as_deref(), Some(field), "{method} {body}: {outcome:?}");
    let text = outcome.message.strip_prefix(field).unwrap_or_default();
    assert!(text.contains(why), "{method} {body}: {outcome:?}");
}

/// A request with these fields instead of those of a right one.
fn with(mut right: Value, mut fields: Value) -> Value {
    right.as_object_mut().unwrap().append(fields.as_object_mut().unwrap());
    right
}

#[tokio::test]
async fn conversations_of_every_wrong_form_are_refused() {
    let (node, ann, _) = started().await;
    let ids = [
        "",
        "d",
        "g",
        "7",
        "d7",
        "d8-7",
        "d7-",
        "d-7",
        "d0-7",
        "d7--8",
        "d7-8-9",
        "d7,8",
        "g0",
        "g-9",
        "g9 ",
        "d07-8",
        "d+7-8",
        "G9",
        "x9",
        "o0",
        "g9223372036854775808",
        "g９",
        "d7-8\n",
        "g9\u{200B}",
    ];
    for id in ids {
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
    for (fields, field, why) in wrong {
        assert_field_refused(&node, "SendMessage", &with(right.clone(), fields), field, why).await;
    }
    assert_eq!(read_all(&node, ann, &format!("g{group}")).await, [""; 0]);
    node.assert_healthy().await;
}

/// What comes of a send by JSON alone: one that is made twice is stored twice.
async fn sent(node: &TestNode, body: &Value) -> Outcome {
    by_json(&mut Connection::open(node.address).await, &rpc("SendMessage"), &[], body).await
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
        // What is answered is not looked up.
        json!({ "replyToSeq": i64::MAX.to_string() }),
        json!({ "body": STANDARD.encode(vec![7; BODY]) }),
    ];
    for (seq, fields) in (1..).zip(fine) {
        let outcome = sent(&node, &with(right.clone(), fields.clone())).await;
        let got = (outcome.code.as_str(), &outcome.answer["seq"]);
        assert_eq!(got, ("ok", &json!(format!("{seq}"))), "{fields}");
    }
}

#[tokio::test]
async fn configured_limit_of_a_body_is_named() {
    let node = TestNode::start_with_relations(|config| config.messages.body_bytes_max = 10).await;
    let [ann] = relating::users(&node).await;
    let body = |bytes| json!({ "userId": ann, "senderId": ann, "body": STANDARD.encode(vec![7; bytes]) });
    assert_field_refused(&node, "SendMessage", &body(11), "body", "at most 10 bytes").await;
    assert_eq!(sent(&node, &body(10)).await.code, "ok");
}

#[tokio::test]
async fn reads_with_a_wrong_field_are_refused() {
    let (node, _, group) = started().await;
    let of = |fields| with(json!({ "conversationId": format!("g{group}") }), fields);
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
        ("GetMaxSeqs", json!({ "conversationIds": vec!["g9"; 1_001] }), "conversation_ids", "at most 1000"),
        ("GetMaxSeqs", json!({ "userId": -1 }), "user_id", "must be above 0"),
        ("BatchSend", json!({ "messages": vec![json!({}); 101] }), "messages", "must hold at most 100"),
    ];
    for (method, body, field, why) in wrong {
        assert_field_refused(&node, method, &body, field, why).await;
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn edits_with_a_wrong_field_are_refused() {
    let (node, ann, group) = started().await;
    let id = format!("g{group}");
    sent(&node, &json!({ "groupId": group, "senderId": ann, "body": "aGk=" })).await;
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
    for (fields, field, why) in wrong {
        assert_field_refused(&node, "EditMessage", &with(right.clone(), fields), field, why).await;
    }
    assert_eq!(read_all(&node, ann, &id).await, ["hi"]);
    node.assert_healthy().await;
}
