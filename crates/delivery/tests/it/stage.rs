//! A log in memory that counts its reads, and windows over a real Redis.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::{
    SystemClock,
    remote::redis::{RedisScript, Reply, ScriptCall},
};
use kith_delivery::{EpochSource, RedisWindows, Span, WindowLimits, Windows};
use kith_store::{
    Appended, ConversationId, DocumentKey, Epoch, GroupId, LogDocument, LogEnd, LogHead, Message,
    MessageChange, MessageChangeOutcome, MessageKind, MessageStore, NewMessage, Outcome, Seq, StoreError,
    StoredHeader, Timestamp, UserId,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::model::TestRedis;

/// The conversation that most tests use.
pub(crate) fn log_of(group: i64) -> ConversationId {
    ConversationId::Group(GroupId::new(group).unwrap())
}

/// The numbers from the first to the last.
pub(crate) fn rising(first: Seq, last: Seq) -> Vec<Seq> {
    (first..=last).collect()
}

/// A stage with the default limits.
pub(crate) async fn stage() -> Stage {
    Stage::new(WindowLimits::default()).await
}

/// A message whose body has this length, or is its number.
pub(crate) fn message(seq: Seq, bytes: usize) -> Message {
    Message {
        seq,
        sender: UserId::new(7).ok(),
        sent: Timestamp(seq),
        kind: MessageKind::Message,
        content_type: "text/plain".into(),
        body: if bytes == 0 { seq.to_string().into() } else { vec![b'x'; bytes].into() },
        mentions: vec![UserId::new(seq).unwrap()],
        mention_all: false,
        silent: false,
        reply_to: None,
        client_message_id: None,
        edited: None,
        recalled: None,
    }
}

/// The logs, and how often they were read.
#[derive(Debug)]
pub(crate) struct Logs {
    messages: Mutex<BTreeMap<ConversationId, Vec<Message>>>,
    pub(crate) ends: AtomicUsize,
    pub(crate) pages: AtomicUsize,
    pub(crate) last_documents: AtomicUsize,
    pub(crate) heads: AtomicUsize,
    /// A permit for each read.
    pub(crate) gate: Semaphore,
    pub(crate) is_unavailable: std::sync::atomic::AtomicBool,
}

impl Logs {
    pub(crate) fn new() -> Arc<Self> {
        let (ends, pages, last_documents, heads) = Default::default();
        let (gate, is_unavailable) = (Semaphore::new(Semaphore::MAX_PERMITS), false.into());
        Arc::new(Self {
            messages: Mutex::default(),
            ends,
            pages,
            last_documents,
            heads,
            gate,
            is_unavailable,
        })
    }

    /// Appends messages with bodies this long, and returns them.
    pub(crate) fn append(&self, log: ConversationId, count: usize, bytes: usize) -> Vec<Message> {
        let mut logs = self.messages.lock();
        let messages = logs.entry(log).or_default();
        let first = Seq::try_from(messages.len()).unwrap() + 1;
        let new: Vec<Message> = (first..).take(count).map(|seq| message(seq, bytes)).collect();
        messages.extend_from_slice(&new);
        new
    }

    /// Changes a message's body.
    pub(crate) fn change(&self, log: ConversationId, seq: Seq) {
        let index = usize::try_from(seq).unwrap() - 1;
        self.messages.lock().get_mut(&log).unwrap()[index].body = Bytes::from_static(b"changed");
    }

    /// How often each was read: ends, pages, last documents.
    pub(crate) fn reads(&self) -> [usize; 3] {
        [&self.ends, &self.pages, &self.last_documents].map(|count| count.load(Ordering::Acquire))
    }

    async fn enter(&self, count: &AtomicUsize) -> Result<(), StoreError> {
        count.fetch_add(1, Ordering::AcqRel);
        self.gate.acquire().await.unwrap().forget();
        if self.is_unavailable.load(Ordering::Acquire) {
            let source = Arc::new(std::io::Error::from(std::io::ErrorKind::NotConnected));
            return Err(StoreError::Unavailable { outcome: Outcome::NotApplied, source });
        }
        Ok(())
    }

    fn within(&self, log: ConversationId, first: Seq, last: Seq) -> Vec<Message> {
        let logs = self.messages.lock();
        let messages = logs.get(&log).into_iter().flatten();
        messages.filter(|message| (first..=last).contains(&message.seq)).cloned().collect()
    }

    fn end(&self, log: ConversationId) -> Seq {
        self.messages.lock().get(&log).and_then(|messages| messages.last()).map_or(0, |last| last.seq)
    }
}

#[async_trait]
impl MessageStore for Logs {
    async fn append(&self, _: ConversationId, _: &[NewMessage]) -> Result<Vec<Appended>, StoreError> {
        unreachable!("tests append by themselves")
    }

    async fn messages(&self, log: ConversationId, first: Seq, last: Seq) -> Result<Vec<Message>, StoreError> {
        self.enter(&self.pages).await?;
        Ok(self.within(log, first, last))
    }

    async fn last_documents(&self, log: ConversationId) -> Result<Vec<Message>, StoreError> {
        self.enter(&self.last_documents).await?;
        let end = self.end(log);
        Ok(self.within(log, (end - 1) / 100 * 100 - 99, end))
    }

    async fn document(&self, _: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        unreachable!("windows read the last documents")
    }

    async fn headers(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<StoredHeader>, StoreError> {
        unreachable!("windows read heads")
    }

    async fn heads(&self, asked: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        self.enter(&self.heads).await?;
        let head = |(log, above): &(ConversationId, Seq)| {
            let end = self.end(*log);
            let some = self.within(*log, above.saturating_add(1).max(end - 99), end);
            LogHead {
                last: self.within(*log, end, end).pop(),
                headers: some.iter().map(StoredHeader::of).collect(),
            }
        };
        Ok(asked.iter().map(head).collect())
    }

    async fn ends(&self, logs: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        self.enter(&self.ends).await?;
        Ok(logs.iter().map(|log| LogEnd { seq: self.end(*log), sent: None }).collect())
    }

    async fn strong_end(&self, _: ConversationId) -> Result<Seq, StoreError> {
        unreachable!("windows need no strong end")
    }

    async fn seq_at(&self, _: ConversationId, _: Timestamp) -> Result<Seq, StoreError> {
        unreachable!("windows know no times")
    }

    async fn change(&self, _: ConversationId, _: &MessageChange) -> Result<MessageChangeOutcome, StoreError> {
        unreachable!("tests change messages by themselves")
    }
}

/// The epoch, as a test sets it.
#[derive(Debug)]
pub(crate) struct Epochs {
    pub(crate) followed: Mutex<Option<Epoch>>,
    pub(crate) settled: Mutex<Option<u64>>,
}

impl Epochs {
    /// Follows this epoch on a server, which has settled.
    pub(crate) fn of(redis: &TestRedis, number: u64) -> Arc<Self> {
        let epochs = Self { followed: Mutex::default(), settled: Mutex::default() };
        epochs.follow(redis, number);
        Arc::new(epochs)
    }

    /// Follows this epoch on a server from now on.
    pub(crate) fn follow(&self, redis: &TestRedis, number: u64) {
        *self.followed.lock() = Some(Epoch { number, server: redis.name.clone() });
        *self.settled.lock() = Some(number);
    }
}

#[async_trait]
impl EpochSource for Epochs {
    fn followed_epoch(&self) -> Option<Epoch> {
        self.followed.lock().clone()
    }

    async fn settled_epoch(&self) -> Option<u64> {
        *self.settled.lock()
    }
}

/// Windows over a real Redis, under their own prefix.
pub(crate) struct Stage {
    pub(crate) windows: Windows,
    pub(crate) keeper: Arc<RedisWindows>,
    pub(crate) logs: Arc<Logs>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) redis: TestRedis,
}

impl Stage {
    pub(crate) async fn new(limits: WindowLimits) -> Self {
        let redis = TestRedis::connect().await;
        let epochs = Epochs::of(&redis, 5);
        let (logs, clock) = (Logs::new(), Arc::new(SystemClock::new()));
        let source = Arc::<Epochs>::clone(&epochs);
        let runner = Arc::clone(&redis.runner);
        let keeper = RedisWindows::over(runner, source, Arc::<SystemClock>::clone(&clock), limits);
        let (keeper, store) = (Arc::new(keeper), Arc::<Logs>::clone(&logs));
        let windows = Windows::over(Arc::<RedisWindows>::clone(&keeper), store, clock, limits);
        Self { windows, keeper, logs, epochs, redis }
    }

    /// Appends to the log and then to the window.
    pub(crate) async fn append(&self, log: ConversationId, count: usize, bytes: usize) {
        let began = self.windows.now();
        let messages = self.logs.append(log, count, bytes);
        self.windows.append(log, &messages, false, Some(began)).await.unwrap();
    }

    /// The message numbers that a read returns, and the span.
    pub(crate) async fn read(&self, log: ConversationId, from: Seq, to: Seq) -> ((Seq, Seq), Vec<Seq>) {
        let recent = self.windows.read(log, Span { first: from, last: to }, 0).await.unwrap();
        let found = recent.messages.iter().map(|message| message.seq).collect();
        ((recent.span.first, recent.span.last), found)
    }

    /// The messages in log 9 from this number on.
    pub(crate) fn logs_from(&self, first: Seq) -> Vec<Message> {
        self.logs.within(log_of(9), first, Seq::MAX)
    }

    /// Runs a script on a window's keys.
    pub(crate) async fn on_window(
        &self,
        log: ConversationId,
        script: &RedisScript,
        argument: &[u8],
    ) -> Reply {
        let tag = self.redis.runner.tag();
        let keys = ["h", "l"].map(|part| format!("{{{tag}:log:{log}}}:5:{part}")).to_vec();
        self.redis.call(ScriptCall::new(script, keys, [Bytes::copy_from_slice(argument)])).await
    }
}
