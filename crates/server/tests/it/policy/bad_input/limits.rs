//! Each list in a request has a limit, which its error names.

use serde_json::{Value, json};

use super::assert_field_refused;
use crate::node::TestNode;

/// A method, its list and the list's limit, an item, and the other fields of a request.
type Row = (&'static str, &'static str, usize, &'static str, &'static str);

const OF_CONVERSATION: &str = r#"{"conversationId": "g9"}"#;
const OF_DIALOG: &str = r#"{"conversationId": "g9", "userId": 1}"#;
const OF_GROUP: &str = r#"{"groupId": 1}"#;
const OF_USER: &str = r#"{"userId": 1}"#;
const OF_READER: &str = r#"{"audienceId": 1, "readerId": 7}"#;
const POSITION: &str = r#"{"conversationId": "g9", "seq": 1}"#;
const SEND: &str = r#"{"groupId": 9, "senderId": 1, "contentType": "text/plain", "body": "aGk="}"#;

const LISTS: [Row; 28] = [
    ("/kith.user.v1.UserService/BatchGetUsers", "user_ids", 1_000, "1", "{}"),
    ("/kith.group.v1.GroupService/BatchGetGroups", "group_ids", 1_000, "1", "{}"),
    ("/kith.relation.v1.RelationService/BatchGetRelations", "target_ids", 1_000, "2", OF_USER),
    ("/kith.member.v1.MemberService/AddMembers", "user_ids", 100, "1", OF_GROUP),
    ("/kith.member.v1.MemberService/RemoveMembers", "user_ids", 100, "1", OF_GROUP),
    ("/kith.member.v1.MemberService/UnbanMembers", "user_ids", 100, "1", OF_GROUP),
    ("/kith.member.v1.MemberService/BatchIsMember", "user_ids", 1_000, "1", OF_GROUP),
    ("/kith.application.v1.ApplicationService/MarkReceived", "application_ids", 100, "1", OF_USER),
    ("/kith.application.v1.ApplicationService/MarkRead", "application_ids", 100, "1", OF_USER),
    ("/kith.presence.v1.PresenceService/BatchGetPresence", "user_ids", 1_000, "1", "{}"),
    ("/kith.notice.v1.NoticeService/MarkRead", "notice_ids", 1_000, "1", OF_READER),
    ("/kith.notice.v1.NoticeService/MarkUnread", "notice_ids", 1_000, "1", OF_READER),
    ("/kith.notice.v1.NoticeService/GetReadState", "notice_ids", 1_000, "1", OF_READER),
    ("/kith.notice.v1.NoticeService/CountReaders", "notice_ids", 100, "1", r#"{"audienceId": 1}"#),
    (
        "/kith.notice.v1.NoticeService/RegisterReaders",
        "readers",
        1_000,
        r#"{"readerId": 1}"#,
        r#"{"audienceId": 1}"#,
    ),
    ("/kith.receipt.v1.ReceiptService/BatchGetReceipts", "seqs", 100, "1", OF_CONVERSATION),
    ("/kith.sequence.v1.SequenceService/GetMaxSeqs", "names", 100, r#""a""#, "{}"),
    ("PullBySeqs", "seqs", 100, "1", OF_CONVERSATION),
    ("BatchGetReactions", "seqs", 100, "1", OF_CONVERSATION),
    ("GetMaxSeqs", "conversation_ids", 1_000, r#""g9""#, "{}"),
    ("CountUnread", "conversation_ids", 1_000, r#""g9""#, OF_USER),
    ("GetReadSeqs", "conversation_ids", 1_000, r#""g9""#, OF_USER),
    ("GetMaxSeqs", "at_least", 100, POSITION, "{}"),
    ("CountUnread", "at_least", 100, POSITION, OF_USER),
    ("ListConversations", "at_least", 100, POSITION, OF_USER),
    ("MarkRead", "ranges", 100, r#"{"first": 1, "last": 1}"#, OF_DIALOG),
    ("SendMessage", "mention_ids", 50, "7", SEND),
    ("BatchSend", "messages", 100, "{}", "{}"),
];

#[tokio::test]
async fn lists_above_their_limits_are_refused() {
    let node = TestNode::start_with_relations(|_| {}).await;
    for (method, list, most, item, rest) in LISTS {
        let mut body: Value = serde_json::from_str(rest).unwrap();
        let item: Value = serde_json::from_str(item).unwrap();
        body[list] = json!(vec![item; most + 1]);
        assert_field_refused(&node, method, &body, list, &most.to_string()).await;
    }
    node.assert_healthy().await;
}
