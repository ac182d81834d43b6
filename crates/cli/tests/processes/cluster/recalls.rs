//! Recalls and edits: no node shows the earlier text once they are acknowledged, and none is made while Redis
//! is away.

use std::time::Duration;

use kith_proto::message::v1::{EditMessageRequest, RecallMessageRequest};
use tonic::{Code, Status};

use super::windows::{DirectChat, acting, pair};
use crate::{
    cluster::{
        redis::Redis,
        site::{Peer, Site, stop, until_all_follow},
    },
    polls::until,
};

async fn recall(chat: DirectChat, node: &Peer, seq: i64) -> Result<bool, Status> {
    let request = RecallMessageRequest { conversation_id: chat.id(), seq, ..RecallMessageRequest::default() };
    Ok(node.messages().recall_message(acting(chat.ann, request)).await?.into_inner().replayed)
}

async fn edit(chat: DirectChat, node: &Peer, seq: i64, body: &str) {
    let request = EditMessageRequest {
        conversation_id: chat.id(),
        seq,
        content_type: "text/plain".to_owned(),
        body: body.to_owned().into(),
        ..EditMessageRequest::default()
    };
    node.messages().edit_message(acting(chat.ann, request)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn replaced_text_is_read_on_no_node() {
    let (a, b) = pair(Site::in_redis_of_tests()).await;
    let chat = DirectChat::begin(&a).await;
    for number in 1..=250_i64 {
        chat.send(&a, &number.to_string()).await;
    }
    // The numbers are inside full documents, at their borders, and among the last messages.
    for (round, seq) in [1, 42, 99, 100, 101, 150, 200, 201, 249, 250].into_iter().enumerate() {
        let (writer, reader) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let place = usize::try_from(seq).unwrap() - 1;
        // Each read lets the node copy everything.
        for node in [writer, reader] {
            assert_eq!(chat.read(node, 0).await[place], seq.to_string());
        }
        edit(chat, writer, seq, "edited").await;
        for node in [reader, writer] {
            assert_eq!(chat.read(node, seq).await[0], "edited", "{seq}");
            assert_eq!(chat.last(node, 1_000).await.iter().rev().nth(place).unwrap(), "edited");
        }
        assert!(!recall(chat, writer, seq).await.unwrap());
        for node in [reader, writer] {
            assert_eq!(chat.read(node, seq).await[0], "", "{seq}");
            assert_eq!(chat.last(node, 1_000).await.iter().rev().nth(place).unwrap(), "");
        }
        assert!(recall(chat, reader, seq).await.unwrap(), "it is recalled already");
    }
    assert_eq!(chat.read(&a, 0).await.len(), 250 + 20, "with an event for each change");
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn message_is_not_recalled_while_redis_is_gone() {
    let mut redis = Redis::start(&[]).await;
    let (a, b) = pair(Site::new(Some(redis.url()))).await;
    let chat = DirectChat::begin(&a).await;
    chat.send(&a, "1").await;
    redis.kill();
    let refused = recall(chat, &a, 1).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    assert_eq!(chat.read(&b, 0).await, ["1"]);
    redis.run().await;
    until_all_follow([&a, &b]).await;
    // Its windows follow shortly afterwards.
    until(Duration::from_secs(10), async || recall(chat, &a, 1).await.is_ok()).await;
    assert_eq!(chat.read(&b, 0).await, ["", ""]);
    stop([a, b]).await;
}
