//! Dialog calls that tests share.

use kith_proto::message::v1::{read_seq_result::Result as Read, *};
use tonic::Status;

use crate::node::{Called, TestNode, mask, principal, until};

pub async fn conversation(node: &TestNode, by: i64, id: &str) -> Result<Conversation, Status> {
    let request = GetConversationRequest { conversation_id: id.to_owned(), ..Default::default() };
    Ok(node.messages().get_conversation(principal(by, request)).await?.into_inner().conversation.unwrap())
}

pub async fn list(
    node: &TestNode,
    by: i64,
    page_size: i32,
    page_token: &str,
) -> Result<ListConversationsResponse, Status> {
    let page_token = page_token.to_owned();
    let request = ListConversationsRequest { page_size, page_token, ..Default::default() };
    Ok(node.messages().list_conversations(principal(by, request)).await?.into_inner())
}

/// Returns all conversations that are listed for a user.
pub async fn listed(node: &TestNode, by: i64) -> Vec<Conversation> {
    let page = list(node, by, 200, "").await.unwrap();
    assert_eq!((page.next_page_token.as_str(), page.left_out), ("", 0));
    page.conversations
}

/// Returns the listed conversations' ids.
pub async fn listed_ids(node: &TestNode, by: i64) -> Vec<String> {
    listed(node, by).await.into_iter().map(|conversation| conversation.conversation_id).collect()
}

pub fn to_mark(id: &str, up_to: i64) -> MarkReadRequest {
    MarkReadRequest { conversation_id: id.to_owned(), up_to, ..Default::default() }
}

pub fn to_mark_ranges(id: &str, ranges: &[(i64, i64)]) -> MarkReadRequest {
    let ranges = ranges.iter().map(|(first, last)| SeqRange { first: *first, last: *last }).collect();
    MarkReadRequest { conversation_id: id.to_owned(), ranges, ..Default::default() }
}

pub fn to_hide(id: &str, up_to: i64) -> MarkReadRequest {
    MarkReadRequest { hidden: true, ..to_mark(id, up_to) }
}

pub async fn mark(node: &TestNode, by: i64, request: MarkReadRequest) -> Result<MarkReadResponse, Status> {
    Ok(node.messages().mark_read(principal(by, request)).await?.into_inner())
}

/// Marks up to a number. Returns the read and unread messages then.
pub async fn mark_up_to(node: &TestNode, by: i64, id: &str, up_to: i64) -> (i64, i64) {
    let marked = mark(node, by, to_mark(id, up_to)).await.unwrap();
    (marked.read_seq, marked.unread)
}

/// Returns how far a user has read conversations, or the reason why it may not ask.
pub async fn reads(node: &TestNode, by: i64, ids: &[&str]) -> Vec<Result<ReadSeqs, String>> {
    let conversation_ids = ids.iter().map(|id| (*id).to_owned()).collect();
    let request = GetReadSeqsRequest { conversation_ids, ..Default::default() };
    let results = node.messages().get_read_seqs(principal(by, request)).await.unwrap().into_inner().results;
    assert_eq!(results.iter().map(|result| result.conversation_id.as_str()).collect::<Vec<_>>(), ids);
    let read = |result: ReadSeqResult| match result.result.unwrap() {
        Read::Read(read) => Ok(read),
        Read::Error(error) => Err(error.reason),
    };
    results.into_iter().map(read).collect()
}

/// Returns how far a user has read a conversation.
pub async fn read(node: &TestNode, by: i64, id: &str) -> ReadSeqs {
    reads(node, by, &[id]).await.remove(0).unwrap()
}

/// Waits until a user has read up to a number: its own messages are marked in the background.
pub async fn until_read(node: &TestNode, by: i64, id: &str, seq: i64) {
    until(async || read(node, by, id).await.read_seq == seq).await;
}

pub async fn count(node: &TestNode, by: i64, ids: &[&str]) -> CountUnreadResponse {
    let conversation_ids = ids.iter().map(|id| (*id).to_owned()).collect();
    let request = CountUnreadRequest { conversation_ids, ..Default::default() };
    node.messages().count_unread(principal(by, request)).await.unwrap().into_inner()
}

/// Returns the unread count of each conversation that has unread messages.
pub async fn counts(node: &TestNode, by: i64, ids: &[&str]) -> Vec<(String, i64)> {
    let counts = count(node, by, ids).await.counts;
    counts.into_iter().map(|count| (count.conversation_id, count.unread)).collect()
}

pub fn to_update(id: &str, settings: DialogSettings, paths: &[&str]) -> UpdateDialogRequest {
    UpdateDialogRequest {
        conversation_id: id.to_owned(),
        settings: Some(settings),
        update_mask: mask(paths),
        ..Default::default()
    }
}

pub async fn update(node: &TestNode, by: i64, request: UpdateDialogRequest) -> Called<UpdateDialogResponse> {
    Ok(node.messages().update_dialog(principal(by, request)).await?.into_inner())
}

pub async fn pin(node: &TestNode, by: i64, id: &str, pinned: bool) {
    let settings = DialogSettings { pinned, ..Default::default() };
    update(node, by, to_update(id, settings, &["pinned"])).await.unwrap();
}

pub async fn hide(node: &TestNode, by: i64, id: &str) -> Result<HideConversationResponse, Status> {
    let request = HideConversationRequest { conversation_id: id.to_owned(), ..Default::default() };
    Ok(node.messages().hide_conversation(principal(by, request)).await?.into_inner())
}

pub async fn clear(node: &TestNode, by: i64, id: &str) -> Result<ClearConversationResponse, Status> {
    let request = ClearConversationRequest { conversation_id: id.to_owned(), ..Default::default() };
    Ok(node.messages().clear_conversation(principal(by, request)).await?.into_inner())
}

/// Sets the range as a service.
pub async fn set_range(
    node: &TestNode,
    user_id: i64,
    id: &str,
    min_seq: Option<i64>,
    max_seq: Option<i64>,
) -> SetUserSeqRangeResponse {
    let conversation_id = id.to_owned();
    let request = SetUserSeqRangeRequest { user_id, conversation_id, min_seq, max_seq, ..Default::default() };
    node.messages().set_user_seq_range(request).await.unwrap().into_inner()
}

pub async fn trim(node: &TestNode, by: i64, id: &str, min_seq: i64) -> Result<i64, Status> {
    let request = TrimConversationRequest { conversation_id: id.to_owned(), min_seq };
    Ok(node.messages().trim_conversation(principal(by, request)).await?.into_inner().min_seq)
}
