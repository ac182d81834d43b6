//! Messages that are older than the configured age are hidden and removed.

use std::time::Duration;

use kith_proto::message::v1::{PullMessagesRequest, message_service_client::MessageServiceClient};
use kith_store::{AgedDocument, ConversationId, Timestamp};

use super::{
    faults::Fault,
    stage::{Node, log, message, old},
};
use crate::node::{principal, until};

const DAY: Duration = Duration::from_secs(86_400);

/// Makes a node that keeps messages for two hours.
async fn forgetful() -> Node {
    Node::start(|config| config.messages.kept = Duration::from_secs(7_200)).await
}

/// Returns the documents that were not checked yet.
async fn aged(node: &Node) -> Vec<AgedDocument> {
    node.stores.message_upkeep.aged(Timestamp(0)..Timestamp::now(), 10).await.unwrap()
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
    // The trim shows that rounds were made.
    node.until_trimmed(trimmed).await;
    assert_eq!((node.stored(kept).await.len(), node.record(kept).await.min_seq), (350, 0));
}

/// Appends messages from this time to a log, as many as three documents have.
async fn append_300(node: &Node, log: ConversationId, sent: Timestamp) {
    for _ in 0..3 {
        let some: Vec<_> = (0..100).map(|_| message(sent)).collect();
        node.stores.messages.append(log, &some).await.unwrap();
    }
}

/// A clock that is ahead is no reason to remove anything: the elapsed time counts.
#[tokio::test]
async fn clock_60_days_ahead_removes_nothing_new() {
    let month = Duration::from_secs(30 * 86_400);
    let node = Node::start(|config| {
        (config.messages.kept, config.messages.offline_kept) = (month, month);
    })
    .await;
    let ((new, _), (old, _)) = (node.group("new").await, node.group("old").await);
    // The last round was 60 days ago by this machine's clock, but only a moment ago in reality.
    let truly = Timestamp::now().before(Duration::from_secs(60 * 86_400));
    node.set_removal_time(truly).await;
    node.fill(new, 350, truly).await;
    node.fill(old, 350, truly.before(2 * month)).await;
    let [new_entries, old_entries, ..] = ConversationId::OFFLINE;
    for (log, sent) in
        [(new_entries, truly.before(Duration::from_secs(7_200))), (old_entries, truly.before(2 * month))]
    {
        append_300(&node, log, sent).await;
    }
    let first = async |log| node.stores.messages.messages(log, 1, 100).await.unwrap();
    node.services.message_upkeep.start();
    node.until_trimmed(old).await;
    until(async || first(old_entries).await.is_empty()).await;
    assert_eq!((node.stored(new).await.len(), node.record(new).await.min_seq), (350, 0));
    assert_eq!(first(new_entries).await.len(), 100);
}

/// After all old messages were hidden, an import from years ago is still old.
#[tokio::test]
async fn import_of_2020_is_hidden_after_a_trim() {
    let node = forgetful().await;
    let ((before, _), (imported, _)) = (node.group("before").await, node.group("imported").await);
    let (yesterday, in_2020) = (Timestamp::now().before(DAY), Timestamp(1_600_000_000_000));
    node.fill(before, 201, yesterday).await;
    // A node has checked the document.
    let found = aged(&node).await;
    node.stores.message_upkeep.settle_aged(&found).await.unwrap();
    assert_eq!(aged(&node).await, []);
    node.fill(imported, 350, in_2020).await;
    node.services.message_upkeep.start();
    node.until_trimmed(imported).await;
    assert_eq!(node.stored(imported).await, (301..=350).collect::<Vec<_>>());
    assert_eq!(node.record(before).await.min_seq, 0, "what was looked at is not looked at again");
}

/// Messages from years ago are imported after today's messages: today's messages are not old.
#[tokio::test]
async fn old_import_does_not_age_newer_messages() {
    let node = forgetful().await;
    let ((mixed, _), (old, _)) = (node.group("mixed").await, node.group("old").await);
    node.fill(mixed, 50, Timestamp::now()).await;
    node.fill(mixed, 300, Timestamp(1_600_000_000_000)).await;
    node.fill(old, 350, Timestamp(1_600_000_000_000)).await;
    node.services.message_upkeep.start();
    node.until_trimmed(old).await;
    assert_eq!((node.stored(mixed).await.len(), node.record(mixed).await.min_seq), (350, 0));
}

/// A document is settled only when everything before it is hidden.
#[tokio::test]
async fn retention_retries_what_it_could_not_hide() {
    let node = forgetful().await;
    node.faults.lock().push(Fault::Record);
    let (group, _) = node.group("chess").await;
    node.fill(group, 201, old()).await;
    node.services.message_upkeep.start();
    node.until_trimmed(group).await;
    assert_eq!(node.stored(group).await, [201]);
    until(async || aged(&node).await.is_empty()).await;
}

/// Its documents come first, and are more than one read returns.
#[tokio::test]
async fn unhidden_conversation_delays_no_other() {
    let node = forgetful().await;
    let ((broken, _), (other, _)) = (node.group("broken").await, node.group("other").await);
    node.faults.lock().push(Fault::RecordOf(log(broken)));
    node.fill(broken, 26_000, old().before(DAY)).await;
    node.fill(other, 201, old()).await;
    node.services.message_upkeep.start();
    node.until_trimmed(other).await;
    assert_eq!(node.stored(other).await, [201]);
    assert_eq!(node.record(broken).await.min_seq, 0);
    node.faults.lock().clear();
    until(async || node.record(broken).await.min_seq == 25_901).await;
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

/// A node that has found a document full may still make the next one, by its own clock.
#[tokio::test]
async fn clock_60_days_ahead_ages_no_young_document() {
    let node = Node::start(|config| config.messages.offline_kept = Duration::from_secs(60)).await;
    let ((young, _), (aged, _)) = (node.group("young").await, node.group("aged").await);
    let truly = Timestamp::now().before(60 * DAY);
    node.set_removal_time(truly).await;
    for (group, sent) in [(young, truly), (aged, truly.before(DAY))] {
        node.fill(group, 350, sent).await;
        node.trim(group, 301).await;
    }
    let [new_entries, old_entries, ..] = ConversationId::OFFLINE;
    for (log, sent) in
        [(new_entries, truly.before(Duration::from_secs(600))), (old_entries, truly.before(DAY))]
    {
        append_300(&node, log, sent).await;
    }
    let first = async |log| node.stores.messages.messages(log, 1, 100).await.unwrap();
    node.services.message_upkeep.start();
    node.until_trimmed(aged).await;
    until(async || first(old_entries).await.is_empty()).await;
    assert_eq!((node.stored(young).await.len(), first(new_entries).await.len()), (350, 100));
    assert!(node.record(young).await.trim);
}
