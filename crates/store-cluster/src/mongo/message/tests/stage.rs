//! Nodes over one database, and what others do between an append's commands.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use kith_store::{
    Appended, ConversationId, MessageKey, MessageStore as _, MessageUpkeep as _, Migrations as _, NewMessage,
    StoreError, Timestamp,
};
use mongodb::bson::{Document, doc};
use tokio::sync::Mutex;

use super::{
    super::{
        append::{Log, append},
        documents::{
            DocumentInsert, DocumentSummary, Documents, EarlierSend, Highest, PushOutcome, documents_of, id,
        },
    },
    log,
};
use crate::mongo::{
    connect::{ClusterHandle, connect},
    database::{Mongo, MongoOptions},
};

/// Nodes over a fresh database.
pub(super) struct Stage<const N: usize> {
    pub(super) nodes: [Arc<Mongo>; N],
}

impl<const N: usize> Stage<N> {
    /// Runs `work` on such nodes, and removes the database.
    #[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
    pub(super) async fn run(work: impl AsyncFnOnce(&Self)) {
        let uri = std::env::var("KITH_TEST_MONGODB").expect("KITH_TEST_MONGODB names a MongoDB replica set");
        let options = MongoOptions::new(uri, format!("kith_test_{}", uuid::Uuid::new_v4().simple()));
        let mut handles: Vec<ClusterHandle> = Vec::new();
        for _ in 0..N {
            handles.push(connect(options.clone()).await.unwrap());
        }
        let nodes: Vec<Arc<Mongo>> = handles.iter().map(|handle| Arc::clone(&handle.mongo)).collect();
        let stage = Self { nodes: nodes.try_into().unwrap() };
        stage.nodes[0].migrate().await.unwrap();
        work(&stage).await;
        stage.nodes[0].database.drop().await.unwrap();
    }

    /// The sizes of the log's documents, by their numbers.
    pub(super) async fn sizes(&self) -> Vec<(i64, usize)> {
        let raw = self.nodes[0].database.collection::<Document>("messages");
        let mut cursor = raw.find(documents_of(log())).sort(doc! { "_id": 1 }).await.unwrap();
        let mut sizes = Vec::new();
        while cursor.advance().await.unwrap() {
            let found: Document = cursor.deserialize_current().unwrap();
            let number = found.get_document("_id").unwrap().get_i64("d").unwrap();
            sizes.push((number, found.get_array("m").unwrap().len()));
        }
        sizes
    }

    /// The ids of the messages with these numbers in one document.
    pub(super) async fn ids(&self, first: i64, last: i64) -> Vec<String> {
        let found = self.nodes[0].messages(log(), first, last).await.unwrap();
        found.into_iter().map(|message| message.client_message_id.unwrap().as_str().to_owned()).collect()
    }

    /// Upkeep removes all that it may, so long after the messages were appended.
    pub(super) async fn trim(&self, after: Duration) {
        let now = Timestamp::now().after(after);
        self.nodes[0].trim(log(), i64::MAX, now).await.unwrap();
    }

    /// A primary loses what no majority has.
    pub(super) async fn delete(&self, document: i64) {
        self.nodes[0].messages.delete_one(doc! { "_id": id(log(), document) }).await.unwrap();
    }

    /// A primary loses what no majority has.
    pub(super) async fn cut(&self, document: i64, size: i64) {
        let cut = doc! { "$push": { "m": { "$each": [], "$slice": size } } };
        self.nodes[0].messages.update_one(doc! { "_id": id(log(), document) }, cut).await.unwrap();
    }
}

/// Appends messages in steps that fill a document, each step new.
pub(super) async fn fill(node: &Mongo, messages: &[NewMessage]) {
    for some in messages.chunks(100) {
        let appended = node.append(log(), some).await.unwrap();
        assert!(appended.iter().all(|one| matches!(one, Appended::New(_))), "{appended:?}");
    }
}

/// Before which command in an append something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeforeCommand {
    Push,
    Make,
}

type Event<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A node between whose commands something happens, once each, in this order.
pub(super) struct InterleavedNode<'a> {
    node: &'a Mongo,
    events: Mutex<VecDeque<(BeforeCommand, Event<'a>)>>,
}

impl fmt::Debug for InterleavedNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterleavedNode").finish_non_exhaustive()
    }
}

impl<'a> InterleavedNode<'a> {
    pub(super) fn new<const N: usize>(node: &'a Mongo, events: [(BeforeCommand, Event<'a>); N]) -> Self {
        Self { node, events: Mutex::new(events.into()) }
    }

    /// Appends by the node, with its hints. All that was to happen must have happened.
    pub(super) async fn append(&self, batch: &[NewMessage]) -> Result<Vec<Appended>, StoreError> {
        let log = Log { documents: self, hints: &self.node.hints, conversation: log() };
        let appended = append(log, batch, self.node.options.append).await;
        assert!(self.events.lock().await.is_empty(), "not all has happened: {appended:?}");
        appended
    }

    async fn run_event(&self, before: BeforeCommand) {
        let mut events = self.events.lock().await;
        if let Some((_, event)) = events.pop_front_if(|(when, _)| *when == before) {
            drop(events);
            event.await;
        }
    }
}

#[async_trait]
impl Documents for InterleavedNode<'_> {
    async fn tail(&self, log: ConversationId) -> Result<Option<DocumentSummary>, StoreError> {
        self.node.tail(log).await
    }

    async fn push(
        &self,
        log: ConversationId,
        document: i64,
        messages: &[&NewMessage],
    ) -> Result<PushOutcome, StoreError> {
        self.run_event(BeforeCommand::Push).await;
        self.node.push(log, document, messages).await
    }

    async fn make(
        &self,
        log: ConversationId,
        document: i64,
        messages: &[&NewMessage],
        before: Highest,
    ) -> Result<DocumentInsert, StoreError> {
        self.run_event(BeforeCommand::Make).await;
        self.node.make(log, document, messages, before).await
    }

    async fn find_sent(
        &self,
        log: ConversationId,
        keys: &[MessageKey],
    ) -> Result<HashMap<MessageKey, EarlierSend>, StoreError> {
        self.node.find_sent(log, keys).await
    }
}
