//! Messages that are older than configured are hidden and removed.

use std::time::Duration;

use kith_proto::message::v1::{PullMessagesRequest, message_service_client::MessageServiceClient};
use kith_store::{ConversationId, Timestamp};

use super::{
    faults::Fault,
    stage::{Node, message, old},
};
use crate::node::{principal, until};

const DAY_MS: i64 = 86_400_000;

/// The time up to which documents were looked at; 0: none were.
async fn mark(node: &Node) -> i64 {
    let mark = node.stores.coordination.mark("messages").await.unwrap();
    mark.map_or(0, |mark| i64::from_le_bytes(mark.try_into().unwrap()))
}

/// A node that keeps messages for two hours.
async fn forgetful() -> Node {
    Node::start(|config| config.messages.kept = Duration::from_secs(7_200)).await
}

#[tokio::test]
async fn old_messages_are_hidden_and_removed() {
    let node = forgetful().await;
    let ((mixed, owner), (young, _), (short, _)) =
        (node.group("mixed").await, node.group("young").await, node.group("short").await);
    let recent = Timestamp(Timestamp::now().0 - 3_700_000);
    node.fill(mixed, 201, old()).await;
    node.fill(mixed, 149, recent).await;
    node.fill(young, 350, recent).await;
    node.fill(short, 50, old()).await;
    node.services.message_upkeep.start();
    node.until_trimmed(mixed).await;
    assert_eq!(node.stored(mixed).await, (201..=350).collect::<Vec<_>>());
    assert_eq!((node.stored(young).await.len(), node.stored(short).await.len()), (350, 50));
    assert_eq!((node.record(young).await.min_seq, node.record(short).await.min_seq), (0, 0));
    let request = PullMessagesRequest { conversation_id: format!("g{mixed}"), ..Default::default() };
    let page = MessageServiceClient::new(node.edge.clone()).pull_messages(principal(owner, request)).await;
    assert_eq!(page.unwrap().into_inner().min_seq, 201);
}

#[tokio::test]
async fn messages_are_kept_for_ever_by_default() {
    let node = Node::start(|_| {}).await;
    let ((kept, _), (trimmed, _)) = (node.group("kept").await, node.group("trimmed").await);
    node.fill(kept, 350, old()).await;
    node.fill(trimmed, 350, old()).await;
    node.trim(trimmed, 301).await;
    node.services.message_upkeep.start();
    // Rounds were made.
    node.until_trimmed(trimmed).await;
    assert_eq!((node.stored(kept).await.len(), node.record(kept).await.min_seq), (350, 0));
}

/// A log that is long and old is looked at once, not in each round.
#[tokio::test]
async fn retention_goes_on_at_its_mark() {
    let node = forgetful().await;
    let ((before, _), (after, _)) = (node.group("before").await, node.group("after").await);
    let now = Timestamp::now().0;
    node.fill(before, 201, Timestamp(now - 3 * DAY_MS)).await;
    node.fill(after, 201, Timestamp(now - DAY_MS)).await;
    let (leases, two_days_ago) = (&node.stores.coordination, (now - 2 * DAY_MS).to_le_bytes());
    assert!(leases.lease("messages", "alone", Duration::from_secs(15)).await.unwrap());
    assert!(leases.set_mark("messages", "alone", &two_days_ago).await.unwrap());
    node.services.message_upkeep.start();
    node.until_trimmed(after).await;
    assert_eq!(node.record(before).await.min_seq, 0, "it was looked at before the mark was set");
    until(async || mark(&node).await == now - DAY_MS + 1).await;
}

/// The mark is set only when what is before it is hidden.
#[tokio::test]
async fn retention_retries_what_it_could_not_hide() {
    let node = forgetful().await;
    node.faults.lock().push(Fault::Record);
    let (group, _) = node.group("chess").await;
    node.fill(group, 201, old()).await;
    node.services.message_upkeep.start();
    node.until_trimmed(group).await;
    assert_eq!(node.stored(group).await, [201]);
    until(async || mark(&node).await > 0).await;
}

#[tokio::test]
async fn failing_retention_does_not_delay_trims() {
    let node = forgetful().await;
    node.faults.lock().push(Fault::SearchByAge);
    let (group, _) = node.group("chess").await;
    node.fill(group, 350, old()).await;
    node.trim(group, 301).await;
    node.services.message_upkeep.start();
    node.until_trimmed(group).await;
    assert_eq!(node.stored(group).await, (301..=350).collect::<Vec<_>>());
}

#[tokio::test]
async fn old_entries_are_removed() {
    let hours = |count: u64| Duration::from_secs(count * 3_600);
    let node = Node::start(|config| {
        (config.messages.kept, config.messages.offline_kept) = (hours(1), hours(6));
    })
    .await;
    let (entries, recent) = (ConversationId::OFFLINE[1], Timestamp(Timestamp::now().0 - 7_300_000));
    for (count, sent) in [(100, old()), (100, old()), (50, old()), (100, recent)] {
        let some: Vec<_> = (0..count).map(|_| message(sent)).collect();
        node.stores.messages.append(entries, &some).await.unwrap();
    }
    node.services.message_upkeep.start();
    until(async || node.stores.messages.messages(entries, 101, 200).await.unwrap().is_empty()).await;
    let mut left = Vec::new();
    for first in [1, 101, 201, 301] {
        left.extend(node.stores.messages.messages(entries, first, first + 99).await.unwrap());
    }
    assert_eq!(left.iter().map(|one| one.seq).collect::<Vec<_>>(), (201..=350).collect::<Vec<_>>());
    let record = node.stores.conversations.conversations(&[entries]).await.unwrap();
    assert!(record.is_empty(), "messages.kept is for messages of users");
}
