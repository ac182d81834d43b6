//! Messages that no user may read any more are removed from the store, and so is an erased user's content.

mod erasures;
mod faults;
mod retention;
mod stage;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use kith_proto::message::v1::{
    SendMessageRequest, message_service_client::MessageServiceClient, send_message_request::To,
};
use kith_store::{
    Group, GroupId, GroupStore, JoinPolicy, MessageStore, StoreError, Stored, StrongReads, Timestamp, User,
    UserId, Write,
};

use crate::{bare_node::new_group, node::principal};
use faults::Fault;
use stage::{Node, log, message, old};

/// Another store's users and groups. A dismissed group is created again, with messages, while it is read.
#[derive(Debug)]
struct CreatedAgain {
    store: Arc<dyn StrongReads>,
    groups: Arc<dyn GroupStore>,
    messages: Arc<dyn MessageStore>,
    has_created: AtomicBool,
}

impl CreatedAgain {
    async fn create(&self, id: GroupId) {
        let group = new_group(id, JoinPolicy::Open, None);
        self.groups.create_group(group, Write::at(Timestamp::now())).await.unwrap();
        let messages: Vec<_> = (0..60).map(|_| message(Timestamp::now())).collect();
        self.messages.append(log(id.get()), &messages).await.unwrap();
    }
}

#[async_trait]
impl StrongReads for CreatedAgain {
    async fn strong_users(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError> {
        self.store.strong_users(ids).await
    }

    async fn strong_groups(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Stored<Group>)>, StoreError> {
        let found = self.store.strong_groups(ids).await?;
        for (id, stored) in &found {
            if matches!(stored, Stored::Deleted(_)) && !self.has_created.swap(true, Ordering::Relaxed) {
                self.create(*id).await;
            }
        }
        Ok(found)
    }
}

#[tokio::test]
async fn trimming_removes_whole_documents() {
    let node = Node::start(|_| {}).await;
    let (group, owner) = node.group("chess").await;
    node.fill(group, 350, old()).await;
    node.trim(group, 251).await;
    assert_eq!(node.stored(group).await.len(), 350);
    node.services.message_upkeep.start();
    node.until_trimmed(group).await;
    assert_eq!(node.stored(group).await, (201..=350).collect::<Vec<_>>());
    let message =
        SendMessageRequest { to: Some(To::GroupId(group)), body: "hi".into(), ..Default::default() };
    let sent = MessageServiceClient::new(node.edge.clone()).send_message(principal(owner, message)).await;
    assert_eq!(sent.unwrap().into_inner().seq, 351);
}

#[tokio::test]
async fn long_log_is_removed_in_many_steps() {
    let node = Node::start(|_| {}).await;
    let (group, _) = node.group("chess").await;
    node.fill(group, 7_030, old()).await;
    node.trim(group, 7_031).await;
    node.services.message_upkeep.start();
    node.until_trimmed(group).await;
    assert_eq!(node.stored(group).await, (7_001..=7_030).collect::<Vec<_>>());
}

#[tokio::test]
async fn young_documents_wait_and_do_not_delay_others() {
    let node = Node::start(|_| {}).await;
    let ((young, _), (aged, _)) = (node.group("young").await, node.group("aged").await);
    assert!(young < aged, "it is looked at first");
    node.fill(young, 350, Timestamp::now()).await;
    node.fill(aged, 350, old()).await;
    node.trim(young, 301).await;
    node.trim(aged, 301).await;
    node.services.message_upkeep.start();
    node.until_trimmed(aged).await;
    assert_eq!(node.stored(young).await.len(), 350);
    assert!(node.record(young).await.trim, "it is looked at again");
}

#[tokio::test]
async fn log_that_fails_does_not_delay_others() {
    let node = Node::start(|_| {}).await;
    let ((failing, _), (other, _)) = (node.group("failing").await, node.group("other").await);
    assert!(failing < other, "it is looked at first");
    node.faults.lock().push(Fault::Log(log(failing)));
    for group in [failing, other] {
        node.fill(group, 350, old()).await;
        node.trim(group, 301).await;
    }
    node.services.message_upkeep.start();
    node.until_trimmed(other).await;
    node.faults.lock().clear();
    node.until_trimmed(failing).await;
}

/// A round checks 100 conversations.
#[tokio::test]
async fn many_young_conversations_do_not_delay_others() {
    let node = Node::start(|_| {}).await;
    for young in 101..=200 {
        node.fill(young, 101, Timestamp::now()).await;
        node.stores.conversations.raise_min_seq(log(young), 101, true).await.unwrap();
    }
    let aged = 999;
    node.fill(aged, 101, old()).await;
    node.stores.conversations.raise_min_seq(log(aged), 101, true).await.unwrap();
    node.services.message_upkeep.start();
    node.until_trimmed(aged).await;
    // The next round begins with the first conversation again.
    let first = 100;
    node.fill(first, 101, old()).await;
    node.stores.conversations.raise_min_seq(log(first), 101, true).await.unwrap();
    node.until_trimmed(first).await;
}

#[tokio::test]
async fn dismissed_group_keeps_its_last_document() {
    let node = Node::start(|_| {}).await;
    let (group, owner) = node.group("chess").await;
    node.fill(group, 250, old()).await;
    node.services.message_upkeep.start();
    node.dismiss(group, owner).await;
    node.until_trimmed(group).await;
    assert_eq!(node.stored(group).await, (201..=250).collect::<Vec<_>>());
    assert_eq!(node.record(group).await.min_seq, 251);
}

#[tokio::test]
async fn group_created_again_keeps_its_messages() {
    let node = Node::start_over(
        |_| {},
        |stores| {
            stores.strong = Arc::new(CreatedAgain {
                store: Arc::clone(&stores.strong),
                groups: Arc::clone(&stores.groups),
                messages: Arc::clone(&stores.messages),
                has_created: AtomicBool::new(false),
            });
        },
    )
    .await;
    let (group, owner) = node.group("chess").await;
    node.fill(group, 250, old()).await;
    node.services.message_upkeep.start();
    node.dismiss(group, owner).await;
    node.until_trimmed(group).await;
    assert_eq!(node.record(group).await.min_seq, 251, "its own messages come after those of the first");
    assert_eq!(node.stored(group).await, (201..=310).collect::<Vec<_>>());
}
