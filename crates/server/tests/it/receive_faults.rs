//! The store fails for a moment while a stream begins or sends its backlog.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use kith_proto::message::v1::{
    BatchSendRequest, SendMessageRequest, delivery::What, message_service_client::MessageServiceClient,
    send_message_request::To,
};
use kith_server::{config::Config, edge::Edge, node::services::Services};
use kith_store::*;
use tonic::Code;

use crate::bare_node::{self, user};
use crate::broken_store;
use crate::message_calls::text;
use crate::message_streams::{Stream, has};
use crate::node::{assert_error, principal};
use crate::store_over::store_over;

/// The messages before a stream: more than a window has.
const BACKLOG: i64 = 300;

/// Another store's messages, some of whose next reads fail.
#[derive(Debug)]
struct FailingStore {
    store: Arc<dyn MessageStore>,
    /// How many reads of ends fail.
    ends: AtomicUsize,
    /// How many reads of messages fail.
    messages: AtomicUsize,
}

fn fail_once(left: &AtomicUsize) -> Result<(), StoreError> {
    match left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
        Ok(_) => Err(broken_store::away(Outcome::Unknown)),
        Err(_) => Ok(()),
    }
}

store_over! {
    MessageStore for FailingStore by store {
        async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
            fail_once(&self.ends)?;
            self.store.ends(conversations).await
        }

        async fn messages(
            &self,
            conversation: ConversationId,
            first: Seq,
            last: Seq,
        ) -> Result<Vec<Message>, StoreError> {
            fail_once(&self.messages)?;
            self.store.messages(conversation, first, last).await
        }

        async fn document(&self, key: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
            fail_once(&self.messages)?;
            self.store.document(key).await
        }
    }
    fn append(conversation: ConversationId, batch: &[NewMessage]) -> Vec<Appended>;
    fn change(conversation: ConversationId, change: &MessageChange) -> MessageChangeOutcome;
    fn headers(conversation: ConversationId, first: Seq, last: Seq) -> Vec<StoredHeader>;
    fn heads(asked: &[(ConversationId, Seq)]) -> Vec<LogHead>;
    fn strong_end(conversation: ConversationId) -> Seq;
    fn seq_at(conversation: ConversationId, time: Timestamp) -> Seq;
}

/// Two users. The first has sent [`BACKLOG`] messages to the second.
struct Stage {
    edge: Edge,
    log: Arc<FailingStore>,
    sender: i64,
    reader: i64,
    conversation: String,
    _services: Services,
    _file: kith_store_sqlite::SqliteHandle,
}

impl Stage {
    async fn new() -> Self {
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        let mut stores = file.stores();
        let store = Arc::clone(&stores.messages);
        let (ends, messages) = (AtomicUsize::default(), AtomicUsize::default());
        let log = Arc::new(FailingStore { store, ends, messages });
        stores.messages = Arc::<FailingStore>::clone(&log);
        let (edge, services) = bare_node::serve(&stores, &Config::default()).await;
        let (sender, reader) = (user(&edge, 0, "ann").await, user(&edge, 0, "bea").await);
        services.receivers.start();
        let conversation = format!("d{sender}-{reader}");
        let stage = Self { edge, log, sender, reader, conversation, _services: services, _file: file };
        for _ in 0..BACKLOG / 100 {
            stage.say(100).await;
        }
        stage
    }

    fn calls(&self) -> MessageServiceClient<Edge> {
        MessageServiceClient::new(self.edge.clone())
    }

    async fn say(&self, count: usize) {
        let message = SendMessageRequest { sender_id: self.sender, ..text(To::UserId(self.reader), "hi") };
        let sent = self.calls().batch_send(BatchSendRequest { messages: vec![message; count] }).await;
        assert_eq!(sent.unwrap().into_inner().results.len(), count);
    }

    /// Opens a stream of the reader, who has the first message.
    async fn open(&self) -> Stream {
        let request = has(&[(&self.conversation, 1)]);
        Stream::new(self.calls().receive(principal(self.reader, request)).await.unwrap().into_inner())
    }

    /// Checks that a new stream brings all up to this number, and then what is sent.
    async fn assert_brings(&self, mut stream: Stream, last: i64) {
        let count = usize::try_from(last - 1).unwrap();
        assert_eq!(stream.seqs(&self.conversation, count).await, (2..=last).collect::<Vec<_>>());
        assert_eq!(stream.until_live().await, Vec::<What>::new());
        self.say(1).await;
        assert_eq!(stream.seqs(&self.conversation, 1).await, [last + 1]);
    }
}

#[tokio::test]
async fn start_that_failed_is_made_again() {
    let stage = Stage::new().await;
    for _ in 0..2 {
        stage.log.ends.store(1, Relaxed);
        assert_error(stage.open().await.response().await, Code::Unavailable, "STORE_UNAVAILABLE");
        assert_eq!(stage.log.ends.load(Relaxed), 0);
    }
    stage.say(1).await;
    stage.assert_brings(stage.open().await, BACKLOG + 1).await;
}

#[tokio::test]
async fn backlog_goes_on_after_failed_reads() {
    let stage = Stage::new().await;
    stage.log.messages.store(2, Relaxed);
    stage.assert_brings(stage.open().await, BACKLOG).await;
    assert_eq!(stage.log.messages.load(Relaxed), 0, "reads have failed");
}

/// Each try fails: the client hears of it, and loses nothing.
#[tokio::test]
async fn backlog_that_cannot_be_read_ends_the_stream() {
    let stage = Stage::new().await;
    stage.log.messages.store(usize::MAX, Relaxed);
    let mut stream = stage.open().await;
    assert_error(stream.response().await, Code::Unavailable, "STORE_UNAVAILABLE");
    assert!(stream.response().await.unwrap().is_none(), "it has ended");
    stage.log.messages.store(0, Relaxed);
    stage.assert_brings(stage.open().await, BACKLOG).await;
}
