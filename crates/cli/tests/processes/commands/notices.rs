//! Runs `kith notice` against a node.

use serde_json::json;

use super::{CommandOutput, at};
use crate::process::Node;

/// Runs a command that prints its result as JSON.
fn result(node: &Node, arguments: &[&str]) -> CommandOutput {
    at(node, &[arguments, &["-o", "json"]].concat())
}

#[test]
fn notice_is_published_listed_and_counted() {
    let node = Node::start();
    let audience = r#"{"audience":{"audienceId":1,"name":"Customers"}}"#;
    assert_eq!(at(&node, &["call", "RegisterAudience", audience]).code, 0);
    let publish = ["notice", "publish", "--audience", "1", "--title", "News", "--id", "5", "--must-confirm"];
    let published = result(&node, &publish);
    assert_eq!(published.code, 0, "{published:?}");
    assert_eq!(published.json()[0]["notice"], 5);
    let again = at(&node, &publish);
    assert!(again.code != 0 && again.err.contains("notice_id is taken"), "{again:?}");

    let mark = r#"{"audienceId":1,"readerId":"7","noticeIds":["5"],"confirm":true}"#;
    assert_eq!(at(&node, &["call", "/kith.notice.v1.NoticeService/MarkRead", mark]).code, 0);
    let listed = result(&node, &["notice", "list", "--audience", "1", "--reader", "7"]).json();
    assert_eq!((&listed[0]["read"], &listed[0]["confirmed"]), (&json!(true), &json!(true)));
    let listed = result(&node, &["notice", "list", "--audience", "1"]).json();
    assert_eq!((&listed[0]["title"], &listed[0]["read"]), (&json!("News"), &json!(null)));
    let stats = result(&node, &["notice", "stats", "5"]).json();
    let expected =
        json!([{ "audience": 1, "read": 1, "confirmed": 1, "registered": 1, "incomplete": false }]);
    assert_eq!(stats, expected);
    let none = at(&node, &["notice", "stats", "6"]);
    assert_eq!((none.code, none.out.as_str()), (2, ""), "{none:?}");
}
