//! Messages that no user may read any more are removed from the store, and so is the content of users that are erased.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kith_proto::{
    group::v1::{self as groups, group_service_client::GroupServiceClient},
    message::v1::{
        PullMessagesRequest, SendMessageRequest, TrimConversationRequest,
        message_service_client::MessageServiceClient, send_message_request::To,
    },
    user::v1::{self as users, user_service_client::UserServiceClient},
};
use kith_server::{
    admin::Vitals,
    config::Config,
    edge::{Edge, Routes},
    health::Reporter,
    node::services::{self, Services},
};
use kith_store::{
    AgedDocument, ContentHash, Conversation, ConversationId, DialogKey, Erasure, ErasurePlace, GroupId,
    MessageKey, MessageKind, MessageUpkeep, NewMessage, Outcome, SentDocuments, Seq, StoreError, Stores,
    Timestamp, Trimmed, UserId,
};
use kith_store_sqlite::SqliteHandle;

use crate::node::{principal, until};

/// The services of a node over a store in memory, whose upkeep has not begun.
struct Node {
    edge: Edge,
    services: Services,
    stores: Stores,
    _file: SqliteHandle,
}

/// The documents of another store. The answer of the first erasure is lost after its effect, as with a node that dies.
#[derive(Debug)]
struct LosesAnAnswer {
    store: Arc<dyn MessageUpkeep>,
    has_lost: AtomicBool,
}

#[async_trait]
impl MessageUpkeep for LosesAnAnswer {
    async fn trim(&self, log: ConversationId, below: Seq, now: Timestamp) -> Result<Trimmed, StoreError> {
        self.store.trim(log, below, now).await
    }

    async fn aged(
        &self,
        from: Timestamp,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<AgedDocument>, StoreError> {
        self.store.aged(from, before, limit).await
    }

    async fn documents_sent_by(
        &self,
        log: ConversationId,
        sender: UserId,
        from: Seq,
    ) -> Result<SentDocuments, StoreError> {
        self.store.documents_sent_by(log, sender, from).await
    }

    async fn erase_document(
        &self,
        log: ConversationId,
        first: Seq,
        sender: UserId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let erased = self.store.erase_document(log, first, sender, now).await;
        if self.has_lost.swap(true, Ordering::Relaxed) {
            return erased;
        }
        let source = Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        Err(StoreError::Unavailable { outcome: Outcome::Unknown, source })
    }
}

impl Node {
    async fn start(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_over(change, |_| {}).await
    }

    async fn start_over(change: impl FnOnce(&mut Config), replace: impl FnOnce(&mut Stores)) -> Self {
        let mut config = Config::default();
        config.limits.write_answer = Duration::from_secs(8);
        change(&mut config);
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        let mut stores = file.stores();
        replace(&mut stores);
        let edge = Edge::new(Routes::default(), &config.limits);
        let vitals = Vitals::new(Reporter::new(), edge.load(), &stores);
        let services = services::services(&stores, &config, vitals).await.unwrap();
        edge.open(services.routes.clone());
        Self { edge, services, stores, _file: file }
    }

    /// A group of one user, and that user.
    async fn group(&self, name: &str) -> (i64, i64) {
        let user = users::User { user_name: name.to_owned(), ..Default::default() };
        let request = users::CreateUserRequest { user: Some(user), ..Default::default() };
        let made = UserServiceClient::new(self.edge.clone()).create_user(request).await.unwrap().into_inner();
        let owner = made.user.unwrap().user_id;
        let group = groups::Group { name: name.to_owned(), creator_id: owner, ..Default::default() };
        let request = groups::CreateGroupRequest { group: Some(group), ..Default::default() };
        let made = GroupServiceClient::new(self.edge.clone()).create_group(request).await.unwrap();
        (made.into_inner().group.unwrap().group_id, owner)
    }

    /// Adds messages of a service that were sent at this time.
    async fn fill(&self, group: i64, count: usize, sent: Timestamp) {
        self.append(group, (0..count).map(|_| message(sent)).collect()).await;
    }

    async fn append(&self, group: i64, messages: Vec<NewMessage>) {
        for some in messages.chunks(100) {
            self.stores.messages.append(log(group), some).await.unwrap();
        }
    }

    async fn trim(&self, group: i64, min_seq: Seq) {
        let request = TrimConversationRequest { conversation_id: format!("g{group}"), min_seq };
        MessageServiceClient::new(self.edge.clone()).trim_conversation(request).await.unwrap();
    }

    /// The numbers of the messages that are stored.
    async fn stored(&self, group: i64) -> Vec<Seq> {
        let end = self.stores.messages.strong_end(log(group)).await.unwrap();
        let mut found = Vec::new();
        for first in (1..=end).step_by(100) {
            let some = self.stores.messages.messages(log(group), first, first + 99).await.unwrap();
            found.extend(some.iter().map(|message| message.seq));
        }
        found
    }

    async fn record(&self, group: i64) -> Conversation {
        let found = self.stores.conversations.conversations(&[log(group)]).await.unwrap();
        found.first().copied().unwrap_or(Conversation::absent(log(group)))
    }

    /// Waits until nothing is left to remove of a conversation of which something was.
    async fn until_trimmed(&self, group: i64) {
        until(async || {
            let record = self.record(group).await;
            record.min_seq > 0 && !record.trim
        })
        .await;
    }
}

fn log(group: i64) -> ConversationId {
    ConversationId::Group(GroupId::new(group).unwrap())
}

fn message(sent: Timestamp) -> NewMessage {
    NewMessage {
        key: MessageKey(uuid::Uuid::new_v4().into_bytes()),
        hash: ContentHash::of("", b"hi"),
        sender: None,
        sent,
        kind: MessageKind::Message,
        content_type: "".into(),
        body: "hi".into(),
        mentions: Vec::new(),
        mention_all: false,
        silent: false,
        reply_to: None,
        client_message_id: None,
    }
}

/// So old that everything may be removed.
fn old() -> Timestamp {
    Timestamp(Timestamp::now().0 - 86_400_000)
}

#[tokio::test]
async fn trimmed_messages_are_removed_by_whole_documents() {
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
async fn dismissed_group_keeps_its_last_document() {
    let node = Node::start(|_| {}).await;
    let (group, owner) = node.group("chess").await;
    node.fill(group, 250, old()).await;
    node.services.message_upkeep.start();
    let request = groups::DismissGroupRequest { group_id: group, ..Default::default() };
    GroupServiceClient::new(node.edge.clone()).dismiss_group(principal(owner, request)).await.unwrap();
    node.until_trimmed(group).await;
    assert_eq!(node.stored(group).await, (201..=250).collect::<Vec<_>>());
    assert_eq!(node.record(group).await.min_seq, 251);
}

#[tokio::test]
async fn messages_older_than_configured_are_hidden_and_removed() {
    let node = Node::start(|config| config.messages.kept = Duration::from_secs(7_200)).await;
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

#[tokio::test]
async fn erasure_goes_on_where_a_node_died() {
    let node = Node::start(|_| {}).await;
    let ((first, user), (second, _)) = (node.group("first").await, node.group("second").await);
    assert!(first < second, "it is erased first");
    let (user, now) = (UserId::new(user).unwrap(), Timestamp::now());
    for group in [first, second] {
        let sent = (0..50).map(|_| NewMessage { sender: Some(user), ..message(now) });
        node.append(group, sent.collect()).await;
        let key = DialogKey { user, conversation: log(group) };
        node.stores.dialogs.make_dialogs(&[key], now).await.unwrap();
    }
    // It has noted the document of the first conversation and erased it.
    let begun = node.stores.erasures.begin_erasure(user, false, now).await.unwrap();
    let place = ErasurePlace { after: None, from: 1, erased_some: true };
    let noted = Erasure { place, conversations: 2, ..begun };
    node.stores.erasures.save_erasure(&noted).await.unwrap().unwrap();
    node.stores.message_upkeep.erase_document(log(first), 1, user, now).await.unwrap();

    node.services.message_upkeep.start();
    let current = async || node.stores.erasures.begin_erasure(user, false, now).await.unwrap();
    until(async || current().await.ended).await;
    let ended = current().await;
    assert_eq!((ended.run, ended.conversations, ended.conversations_done), (1, 2, 2));
    for group in [first, second] {
        let found = node.stores.messages.messages(log(group), 1, 100).await.unwrap();
        assert!(found[..50].iter().all(|message| message.recalled.is_some() && message.body.is_empty()));
        assert_eq!((found.len(), found[50].kind), (51, MessageKind::Event), "one event at the end");
    }
}

/// What is erased is not found again, so that the event follows from the record alone.
#[tokio::test]
async fn event_of_an_erasure_is_posted_after_a_lost_answer() {
    let node = Node::start_over(
        |_| {},
        |stores| {
            let (store, has_lost) = (Arc::clone(&stores.message_upkeep), AtomicBool::new(false));
            stores.message_upkeep = Arc::new(LosesAnAnswer { store, has_lost });
        },
    )
    .await;
    let (group, user) = node.group("chess").await;
    let (user, now) = (UserId::new(user).unwrap(), Timestamp::now());
    node.append(group, vec![NewMessage { sender: Some(user), ..message(now) }]).await;
    let key = DialogKey { user, conversation: log(group) };
    node.stores.dialogs.make_dialogs(&[key], now).await.unwrap();
    node.stores.erasures.begin_erasure(user, false, now).await.unwrap();

    node.services.message_upkeep.start();
    let current = async || node.stores.erasures.begin_erasure(user, false, now).await.unwrap();
    until(async || current().await.ended).await;
    let found = node.stores.messages.messages(log(group), 1, 100).await.unwrap();
    assert!(found[0].recalled.is_some());
    assert_eq!(found.iter().filter(|message| message.kind == MessageKind::Event).count(), 1);
}
