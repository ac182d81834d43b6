//! Calls of messages as tests make them.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "every test file uses a part; a test may panic"
)]

pub mod bad_input;

use kith_proto::{
    group::v1::{self as groups, GroupType, JoinPolicy, Visibility},
    member::v1::{AddMembersRequest, LeaveRequest, RemoveMembersRequest},
    message::v1::{max_seq_result::Result as Max, send_message_request::To, send_result::Result as Sent, *},
};
use tonic::Status;

use crate::node::{TestNode, principal};

pub fn direct(one: i64, other: i64) -> String {
    format!("d{}-{}", one.min(other), one.max(other))
}

/// A text.
pub fn text(to: To, text: &str) -> SendMessageRequest {
    SendMessageRequest {
        to: Some(to),
        content_type: "text/plain".into(),
        body: text.to_owned().into(),
        ..Default::default()
    }
}

/// The same with an id, so that it can be sent again.
pub fn with_id(to: To, id: &str, body: &str) -> SendMessageRequest {
    SendMessageRequest { client_message_id: id.into(), ..text(to, body) }
}

pub async fn send(
    node: &TestNode,
    by: i64,
    request: SendMessageRequest,
) -> Result<SendMessageResponse, Status> {
    Ok(node.messages().send_message(principal(by, request)).await?.into_inner())
}

/// Sends a text for a user, and returns its number.
pub async fn say(node: &TestNode, by: i64, to: To, body: &str) -> Result<i64, Status> {
    Ok(send(node, by, text(to, body)).await?.seq)
}

/// As a service, for the sender that the request names.
pub async fn send_as_service(
    node: &TestNode,
    request: SendMessageRequest,
) -> Result<SendMessageResponse, Status> {
    Ok(node.messages().send_message(request).await?.into_inner())
}

/// Sends many, each to its result: its number, whether it was replayed; or the reason why not, and the field at fault.
pub async fn send_batch(
    node: &TestNode,
    messages: Vec<SendMessageRequest>,
) -> Vec<Result<(i64, bool), (String, String)>> {
    let answer = node.messages().batch_send(BatchSendRequest { messages }).await.unwrap();
    let result = |result: SendResult| match result.result.unwrap() {
        Sent::Sent(sent) => Ok((sent.seq, sent.replayed)),
        Sent::Error(error) => Err((error.reason, error.field)),
    };
    answer.into_inner().results.into_iter().map(result).collect()
}

/// Adds as many texts of a service to a conversation, each of which says its number.
pub async fn fill(node: &TestNode, conversation: &str, count: i64) {
    let end = end(node, conversation).await;
    for some in (end + 1..=end + count).collect::<Vec<_>>().chunks(100) {
        let message = |number: &i64| text(To::ConversationId(conversation.to_owned()), &number.to_string());
        let results = send_batch(node, some.iter().map(message).collect()).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
}

/// The number of the last message.
pub async fn end(node: &TestNode, conversation: &str) -> i64 {
    let conversation_ids = vec![conversation.to_owned()];
    let request = GetMaxSeqsRequest { conversation_ids, ..Default::default() };
    let results = node.messages().get_max_seqs(request).await.unwrap().into_inner().results;
    match results[0].result.as_ref().unwrap() {
        Max::MaxSeq(seq) => *seq,
        Max::Error(error) => panic!("{error:?}"),
    }
}

pub fn to_pull(conversation: &str, from_seq: i64, to_seq: i64, limit: i32) -> PullMessagesRequest {
    let conversation_id = conversation.to_owned();
    PullMessagesRequest { conversation_id, from_seq, to_seq, limit, ..Default::default() }
}

pub async fn pull(
    node: &TestNode,
    by: i64,
    request: PullMessagesRequest,
) -> Result<PullMessagesResponse, Status> {
    Ok(node.messages().pull_messages(principal(by, request)).await?.into_inner())
}

pub async fn history(
    node: &TestNode,
    by: i64,
    conversation: &str,
    before_seq: i64,
    limit: i32,
) -> Result<HistoryResponse, Status> {
    let conversation_id = conversation.to_owned();
    let request = HistoryRequest { conversation_id, before_seq, limit, ..Default::default() };
    Ok(node.messages().history(principal(by, request)).await?.into_inner())
}

pub async fn by_seqs(
    node: &TestNode,
    by: i64,
    conversation: &str,
    seqs: &[i64],
) -> Result<PullBySeqsResponse, Status> {
    let request = PullBySeqsRequest {
        conversation_id: conversation.to_owned(),
        seqs: seqs.to_vec(),
        ..Default::default()
    };
    Ok(node.messages().pull_by_seqs(principal(by, request)).await?.into_inner())
}

pub async fn seq_by_time(
    node: &TestNode,
    by: i64,
    conversation: &str,
    time: prost_types::Timestamp,
) -> Result<i64, Status> {
    let request = GetSeqByTimeRequest {
        conversation_id: conversation.to_owned(),
        time: Some(time),
        ..Default::default()
    };
    Ok(node.messages().get_seq_by_time(principal(by, request)).await?.into_inner().seq)
}

/// The highest number of each conversation that a user may read; or the reason why it may not.
pub async fn max_seqs(node: &TestNode, by: i64, conversations: &[&str]) -> Vec<Result<i64, String>> {
    let conversation_ids = conversations.iter().map(|id| (*id).to_owned()).collect();
    let request = GetMaxSeqsRequest { conversation_ids, ..Default::default() };
    let results = node.messages().get_max_seqs(principal(by, request)).await.unwrap().into_inner().results;
    let ids: Vec<_> = results.iter().map(|result| result.conversation_id.as_str()).collect();
    assert_eq!(ids, conversations);
    let max = |result: MaxSeqResult| match result.result.unwrap() {
        Max::MaxSeq(seq) => Ok(seq),
        Max::Error(error) => Err(error.reason),
    };
    results.into_iter().map(max).collect()
}

pub fn seqs(messages: &[Message]) -> Vec<i64> {
    messages.iter().map(|message| message.seq).collect()
}

/// What users and services said: events have no text.
pub fn texts(messages: &[Message]) -> Vec<String> {
    let said = messages.iter().filter(|message| message.event.is_none());
    said.map(|message| String::from_utf8(message.body.to_vec()).unwrap()).collect()
}

/// All texts that a user may read.
pub async fn read_all(node: &TestNode, by: i64, conversation: &str) -> Vec<String> {
    let page = pull(node, by, to_pull(conversation, 0, 0, 1000)).await.unwrap();
    assert!(!page.more, "a page has room for all");
    texts(&page.messages)
}

/// A public group of this kind, which a user owns.
pub async fn group(node: &TestNode, owner: i64, kind: GroupType) -> i64 {
    let group = groups::Group {
        name: "Chess".into(),
        r#type: kind.into(),
        visibility: Visibility::Public.into(),
        join_policy: JoinPolicy::Open.into(),
        creator_id: owner,
        ..Default::default()
    };
    node.group(group).await.group_id
}

/// A group of people who talk, with these members besides the owner. If there are some, its first message is the event that they
/// joined.
pub async fn chat(node: &TestNode, owner: i64, members: &[i64]) -> i64 {
    let group = group(node, owner, GroupType::Chat).await;
    if !members.is_empty() {
        add(node, group, members).await;
    }
    group
}

pub async fn add(node: &TestNode, group_id: i64, members: &[i64]) {
    let request = AddMembersRequest { group_id, user_ids: members.to_vec(), ..Default::default() };
    node.members().add_members(request).await.unwrap();
}

pub async fn leave(node: &TestNode, group_id: i64, user_id: i64) {
    let request = LeaveRequest { group_id, user_id, ..Default::default() };
    node.members().leave(principal(user_id, request)).await.unwrap();
}

pub async fn remove(node: &TestNode, group_id: i64, user_id: i64) {
    let request = RemoveMembersRequest { group_id, user_ids: vec![user_id], ..Default::default() };
    node.members().remove_members(request).await.unwrap();
}

pub async fn dismiss(node: &TestNode, group_id: i64) {
    let request = groups::DismissGroupRequest { group_id, ..Default::default() };
    node.groups().dismiss_group(request).await.unwrap();
}
