//! Reactions on two nodes: each shows the counts of the other node, and none after a recall.

use std::time::Duration;

use futures::future::join_all;
use kith_proto::message::v1::{
    BatchGetReactionsRequest, ReactRequest, ReactionCount, RecallMessageRequest, UnreactRequest,
};

use super::windows::{DirectChat, acting, pair};
use crate::{
    cluster::site::{Peer, Site, stop},
    polls::until,
};

async fn react(chat: DirectChat, node: &Peer, kind: &str) -> Vec<ReactionCount> {
    let (conversation_id, kind) = (chat.id(), kind.to_owned());
    let request = ReactRequest { user_id: 0, conversation_id, seq: 1, kind };
    node.messages().react(acting(chat.ann, request)).await.unwrap().into_inner().reactions
}

/// The kinds that a node counts for the first message.
async fn kinds(chat: DirectChat, node: &Peer) -> Vec<String> {
    let request = BatchGetReactionsRequest { user_id: 0, conversation_id: chat.id(), seqs: vec![1] };
    let found = node.messages().batch_get_reactions(acting(chat.ann, request)).await.unwrap();
    let counts = found.into_inner().messages.into_iter().flat_map(|message| message.reactions);
    counts.map(|of| of.kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn counts_of_both_nodes_are_equal() {
    let (a, b) = pair(Site::in_redis_of_tests()).await;
    let chat = DirectChat::begin(&a).await;
    chat.send(&a, "1").await;
    let show = async |expected: &[&str]| {
        for node in [&a, &b] {
            until(Duration::from_secs(10), async || kinds(chat, node).await == expected).await;
        }
    };
    show(&[]).await;
    react(chat, &a, "x").await;
    show(&["x"]).await;
    assert_eq!(react(chat, &b, "y").await.len(), 2);
    show(&["x", "y"]).await;
    let (conversation_id, kind) = (chat.id(), "x".to_owned());
    let request = UnreactRequest { user_id: 0, conversation_id, seq: 1, kind };
    b.messages().unreact(acting(chat.ann, request)).await.unwrap();
    show(&["y"]).await;
    let names: Vec<String> = (0..10).map(|number| format!("k{number}")).collect();
    let reacted = names.iter().zip([&a, &b].into_iter().cycle()).map(|(kind, node)| react(chat, node, kind));
    join_all(reacted).await;
    assert_eq!(kinds(chat, &a).await.len(), 11, "none is lost");
    let request =
        RecallMessageRequest { conversation_id: chat.id(), seq: 1, ..RecallMessageRequest::default() };
    a.messages().recall_message(acting(chat.ann, request)).await.unwrap();
    show(&[]).await;
    stop([a, b]).await;
}
