//! The content of users that are erased is removed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use kith_store::{
    AgedDocument, ConversationId, DialogKey, Erasure, ErasurePlace, MessageKind, MessageUpkeep, NewMessage,
    Outcome, SentDocuments, Seq, StoreError, Timestamp, Trimmed, UserId,
};

use super::stage::{Node, log, message};
use crate::node::until;

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
