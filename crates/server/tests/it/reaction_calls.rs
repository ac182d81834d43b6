//! Reaction calls that tests share.

use kith_proto::message::v1::*;
use tonic::Status;

use crate::node::{Called, TestNode, all_pages, principal};

pub fn to_react(id: &str, seq: i64, kind: &str) -> ReactRequest {
    ReactRequest { user_id: 0, conversation_id: id.to_owned(), seq, kind: kind.to_owned() }
}

pub async fn react(node: &TestNode, by: i64, id: &str, seq: i64, kind: &str) -> Called<ReactResponse> {
    Ok(node.messages().react(principal(by, to_react(id, seq, kind))).await?.into_inner())
}

pub async fn unreact(node: &TestNode, by: i64, id: &str, seq: i64, kind: &str) -> Called<UnreactResponse> {
    let (conversation_id, kind) = (id.to_owned(), kind.to_owned());
    let request = UnreactRequest { user_id: 0, conversation_id, seq, kind };
    Ok(node.messages().unreact(principal(by, request)).await?.into_inner())
}

/// Returns the kinds with their counts, as text.
pub fn shown(reactions: &[ReactionCount]) -> String {
    reactions.iter().map(|of| format!("{}{}", of.kind, of.count)).collect::<Vec<_>>().join(" ")
}

/// Returns each message with reactions: its number, the counts and the reader's own kinds.
pub async fn reactions(
    node: &TestNode,
    by: i64,
    id: &str,
    seqs: &[i64],
) -> Result<Vec<(i64, String, String)>, Status> {
    let (conversation_id, seqs) = (id.to_owned(), seqs.to_vec());
    let request = BatchGetReactionsRequest { user_id: 0, conversation_id, seqs };
    let found = node.messages().batch_get_reactions(principal(by, request)).await?.into_inner().messages;
    Ok(found.into_iter().map(|one| (one.seq, shown(&one.reactions), one.own_kinds.join(" "))).collect())
}

/// Returns the counts of one message.
pub async fn counts(node: &TestNode, by: i64, id: &str, seq: i64) -> String {
    let found = reactions(node, by, id, &[seq]).await.unwrap();
    found.into_iter().next().map(|(_, counts, _)| counts).unwrap_or_default()
}

/// Returns the users who react with a kind.
pub async fn reacting(node: &TestNode, by: i64, id: &str, seq: i64, kind: &str) -> Result<Vec<i64>, Status> {
    let request = |page_token| ListReactionsRequest {
        conversation_id: id.to_owned(),
        seq,
        kind: kind.to_owned(),
        page_size: 2,
        page_token,
        ..Default::default()
    };
    let page = async |page_token| {
        let page = node.messages().list_reactions(principal(by, request(page_token))).await?;
        let ListReactionsResponse { reactions, next_page_token } = page.into_inner();
        Ok((reactions.into_iter().map(|one| one.user_id).collect(), next_page_token))
    };
    all_pages(page).await
}
