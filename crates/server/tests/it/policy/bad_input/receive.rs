//! Bad receiver input: code, reason and field, and a healthy node afterwards. Receive streams, so it has no
//! JSON form.

use serde_json::json;
use tonic::Code;

use super::WRONG_IDS;
use crate::message_streams::*;
use crate::node::assert_refused;
use crate::notice_calls::audience;
use crate::relation_calls::with_users;
use kith_proto::message::v1::*;

#[tokio::test]
async fn streams_with_a_wrong_field_are_refused() {
    let (node, [ann]) = with_users().await;
    let position = |id: &str, seq| has(&[(id, seq)]).positions;
    let with_cursor = |cursor: String| ReceiveRequest { cursor, ..Default::default() };
    let with_positions = |positions| ReceiveRequest { positions, ..Default::default() };
    let many = |count: i64| (1..=count).flat_map(|id| position(&format!("g{id}"), 1)).collect::<Vec<_>>();
    let mut wrong = vec![
        (ReceiveRequest { user_id: -1, ..now() }, "user_id"),
        (ReceiveRequest { user_id: i64::MIN, ..now() }, "user_id"),
        (with_cursor("x".to_owned()), "cursor"),
        (with_cursor("AAAA".to_owned()), "cursor"),
        (with_cursor("ä".repeat(2048)), "cursor"),
        (with_cursor("A".repeat(4096)), "cursor"),
        (with_cursor("A".repeat(4097)), "cursor"),
        (with_cursor("A".repeat(100_000)), "cursor"),
        (with_positions(many(2001)), "positions"),
        (with_positions([position("g9", 1), position("g9", 2)].concat()), "positions"),
        (with_positions(position("g9", -1)), "positions.seq"),
        (with_positions(position("g9", i64::MIN)), "positions.seq"),
        (ReceiveRequest { positions: position("g9", 1), ..now() }, "now"),
        (ReceiveRequest { cursor: "x".to_owned(), ..now() }, "now"),
    ];
    wrong.extend(WRONG_IDS.map(|id| (with_positions(position(id, 1)), "positions.conversation_id")));
    for (request, field) in wrong {
        let refused = open(&node, ann, request.clone()).await.err();
        let refused = refused.unwrap_or_else(|| panic!("{request:?} is taken"));
        assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some(field));
    }
    let taken = open(&node, ann, with_positions(many(2000))).await.unwrap().until_live().await;
    assert_eq!(taken, [], "groups that do not exist");
    let largest = open(&node, ann, with_positions(position("d1-2", i64::MAX))).await;
    assert_eq!(largest.unwrap().until_live().await, []);
    node.assert_healthy().await;
}

#[tokio::test]
async fn streams_with_wrong_audiences_are_refused() {
    let (node, [ann]) = with_users().await;
    audience(&node, 1, true).await;
    audience(&node, 2, false).await;
    let with = |notice_audiences: Vec<i32>| ReceiveRequest { notice_audiences, ..now() };
    let field = (Code::InvalidArgument, "INVALID_FIELD", Some("notice_audiences"));
    let missing = (Code::NotFound, "NOT_FOUND", None);
    for (ids, (code, reason, field)) in [
        ((1..=9).collect(), field),
        (vec![1; 100_000], field),
        (vec![1, 1], field),
        (vec![0], field),
        (vec![-1], field),
        (vec![i32::MIN], field),
        (vec![2], field),
        (vec![1, 2], field),
        (vec![3], missing),
        (vec![1, i32::MAX], missing),
    ] {
        // A refusal that needs a lookup replaces the first response.
        let refused = match open(&node, ann, with(ids.clone())).await {
            Ok(mut stream) => stream.response().await.err(),
            Err(refused) => Some(refused),
        };
        let refused = refused.unwrap_or_else(|| panic!("{:?} are taken", &ids[..ids.len().min(9)]));
        assert_refused(&refused, code, reason, field);
    }
    let taken = open(&node, ann, with(vec![1])).await.unwrap().until_live().await;
    assert_eq!(taken.len(), 1, "{taken:?}");
    node.assert_healthy().await;
}

#[tokio::test]
async fn streams_have_no_json_form() {
    let (node, [ann]) = with_users().await;
    for (name, body) in [("Receive", json!({ "userId": ann, "now": true })), ("WatchOffline", json!({}))] {
        let path = format!("/kith.message.v1.MessageService/{name}");
        let answer = crate::http::Connection::open(node.address).await.json(&path, &body).await;
        answer.assert_refused(415, "unimplemented", "MEDIA_TYPE_UNKNOWN");
    }
    node.assert_healthy().await;
}
