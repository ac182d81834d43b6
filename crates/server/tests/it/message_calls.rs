//! Message calls that tests share.

use kith_proto::{
    message::v1::{max_seq_result::Result as Max, send_message_request::To, send_result::Result as Sent, *},
    r#type::v1::import_result::Result as Imported,
};
use tonic::Status;

use crate::group_calls::chat_with_id;
use crate::node::{Called, TestNode, principal, until};
use crate::relation_calls::with_users;

pub fn direct(one: i64, other: i64) -> String {
    format!("d{}-{}", one.min(other), one.max(other))
}

/// Starts a node with two users. Returns their conversation's id, too.
pub async fn direct_chat() -> (TestNode, [i64; 2], String) {
    let (node, [ann, bea]) = with_users().await;
    (node, [ann, bea], direct(ann, bea))
}

/// Makes a request that sends a text.
pub fn text(to: To, text: &str) -> SendMessageRequest {
    SendMessageRequest {
        to: Some(to),
        content_type: "text/plain".into(),
        body: text.to_owned().into(),
        ..Default::default()
    }
}

/// Like [`text`], but with an id, so that it can be sent again.
pub fn with_id(to: To, id: &str, body: &str) -> SendMessageRequest {
    SendMessageRequest { client_message_id: id.into(), ..text(to, body) }
}

pub async fn send(node: &TestNode, by: i64, request: SendMessageRequest) -> Called<SendMessageResponse> {
    Ok(node.messages().send_message(principal(by, request)).await?.into_inner())
}

/// Sends a text for a user, and returns its number.
pub async fn say(node: &TestNode, by: i64, to: To, body: &str) -> Result<i64, Status> {
    Ok(send(node, by, text(to, body)).await?.seq)
}

/// Sends many messages. Returns for each its number and whether it was replayed, or the reason and the field
/// of its error.
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

/// Imports messages. Returns each message's number, or its error's reason and field.
pub async fn import_records(
    node: &TestNode,
    records: Vec<ImportMessage>,
) -> Vec<Result<i64, (String, String)>> {
    let numbers: Vec<i64> = records.iter().map(|record| record.record).collect();
    let requests: Vec<_> =
        records.chunks(500).map(|records| ImportMessagesRequest { records: records.to_vec() }).collect();
    let stream = tokio_stream::iter(requests);
    let mut answers = node.messages().import_messages(stream).await.unwrap().into_inner();
    let mut results = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        results.extend(answer.results);
    }
    assert_eq!(results.iter().map(|result| result.record).collect::<Vec<_>>(), numbers);
    let outcome = |outcome| match outcome {
        Imported::Id(seq) => Ok(seq),
        Imported::Error(error) => Err((error.reason, error.field)),
    };
    results.into_iter().map(|result| outcome(result.result.unwrap())).collect()
}

/// Adds `count` texts from a service to a conversation. Each text is its number.
pub async fn fill(node: &TestNode, conversation: &str, count: i64) {
    let end = end(node, conversation).await;
    for some in (end + 1..=end + count).collect::<Vec<_>>().chunks(100) {
        let message = |number: &i64| text(To::ConversationId(conversation.to_owned()), &number.to_string());
        let results = send_batch(node, some.iter().map(message).collect()).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
}

/// Starts a node with a group of two whose conversation has `count` messages. The first message is the event
/// that the second user joined, the others are from a service.
pub async fn filled(count: i64) -> (TestNode, [i64; 2], i64, String) {
    let (node, [ann, bea]) = with_users().await;
    let (group, conversation) = chat_with_id(&node, ann, &[bea]).await;
    fill(&node, &conversation, count - 1).await;
    (node, [ann, bea], group, conversation)
}

/// Starts a node with a user and its group, whose conversation has `count` messages from a service.
pub async fn filled_by_service(count: i64) -> (TestNode, i64, String) {
    let (node, [ann]) = with_users().await;
    let (_, id) = chat_with_id(&node, ann, &[]).await;
    fill(&node, &id, count).await;
    (node, ann, id)
}

/// Returns the last message's number.
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

pub async fn pull(node: &TestNode, by: i64, request: PullMessagesRequest) -> Called<PullMessagesResponse> {
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

/// Returns the highest number that a user may read in each conversation, or the reason why it may not.
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

/// Returns the texts from users and services: events have none.
pub fn texts(messages: &[Message]) -> Vec<String> {
    let with_text = messages.iter().filter(|message| message.event.is_none());
    with_text.map(|message| String::from_utf8(message.body.to_vec()).unwrap()).collect()
}

/// Returns all texts that a user may read.
pub async fn read_all(node: &TestNode, by: i64, conversation: &str) -> Vec<String> {
    let page = pull(node, by, to_pull(conversation, 0, 0, 1000)).await.unwrap();
    assert!(!page.more, "a page has room for all");
    texts(&page.messages)
}

pub fn to_recall(conversation: &str, seq: i64) -> RecallMessageRequest {
    RecallMessageRequest { conversation_id: conversation.to_owned(), seq, ..Default::default() }
}

pub async fn recall(node: &TestNode, by: i64, conversation: &str, seq: i64) -> Called<RecallMessageResponse> {
    recall_with(node, by, to_recall(conversation, seq)).await
}

pub async fn recall_with(
    node: &TestNode,
    by: i64,
    request: RecallMessageRequest,
) -> Result<RecallMessageResponse, Status> {
    Ok(node.messages().recall_message(principal(by, request)).await?.into_inner())
}

/// Makes a request that edits a text.
pub fn to_edit(conversation: &str, seq: i64, text: &str) -> EditMessageRequest {
    EditMessageRequest {
        conversation_id: conversation.to_owned(),
        seq,
        content_type: "text/plain".into(),
        body: text.to_owned().into(),
        ..Default::default()
    }
}

pub async fn edit(node: &TestNode, by: i64, request: EditMessageRequest) -> Called<EditMessageResponse> {
    Ok(node.messages().edit_message(principal(by, request)).await?.into_inner())
}

/// Asks for the erasure of a user's messages. Returns how far it is.
pub async fn erase(node: &TestNode, user_id: i64, again: bool) -> Called<EraseUserMessagesResponse> {
    let request = EraseUserMessagesRequest { user_id, again };
    Ok(node.messages().erase_user_messages(request).await?.into_inner())
}

/// Waits until an erasure has finished, and returns its result.
pub async fn erased(node: &TestNode, user_id: i64) -> EraseUserMessagesResponse {
    let mut result = EraseUserMessagesResponse::default();
    until(async || {
        result = erase(node, user_id, false).await.unwrap();
        result.state() == ErasureState::Finished
    })
    .await;
    result
}
