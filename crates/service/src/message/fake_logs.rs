//! Logs in memory for tests, whose appends take time and fail when a test says so.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use kith_store::{
    Appended, ConversationId, DOCUMENT, DocumentKey, LogDocument, LogEnd, LogHead, Message, MessageChange,
    MessageChangeOutcome, MessageStore, NewMessage, Outcome, Seq, StoreError, StoredHeader, Timestamp,
    Version,
};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::sample::{partial, unavailable};

/// A fault that an append meets.
#[derive(Clone, Copy, Debug)]
pub(super) enum AppendFault {
    /// The store is away.
    NotApplied,
    /// The answer is lost, and nothing was appended.
    Lost,
    /// The answer is lost after the append.
    Landed,
    Overloaded,
    Full,
    Hangs,
}

/// Logs in memory. They record what is asked of them.
#[derive(Debug, Default)]
pub(super) struct FakeLogs {
    pub(super) logs: Mutex<HashMap<ConversationId, Vec<NewMessage>>>,
    /// The last message that was removed from each log, with all before it.
    pub(super) trimmed: Mutex<HashMap<ConversationId, Seq>>,
    pub(super) is_away: AtomicBool,
    /// How long an append takes.
    pub(super) append_time: Duration,
    /// The faults for the next appends.
    pub(super) faults: Mutex<VecDeque<AppendFault>>,
    /// The appends' sizes, in their order.
    appends: Mutex<Vec<usize>>,
    at_once: AtomicUsize,
    pub(super) most_at_once: AtomicUsize,
    /// The numbers that were read, in their order.
    reads: Mutex<Vec<(Seq, Seq)>>,
}

impl FakeLogs {
    /// Creates it with these faults for the first appends.
    pub(super) fn with_faults(
        append_time: Duration,
        faults: impl IntoIterator<Item = AppendFault>,
    ) -> Arc<Self> {
        let faults = Mutex::new(faults.into_iter().collect());
        Arc::new(Self { append_time, faults, ..Self::default() })
    }

    /// Adds messages, which get the next numbers.
    pub(super) fn fill(&self, conversation: ConversationId, messages: &[NewMessage]) {
        self.logs.lock().entry(conversation).or_default().extend_from_slice(messages);
    }

    /// Returns all messages in a log.
    pub(super) fn log(&self, conversation: ConversationId) -> Vec<NewMessage> {
        self.logs.lock().get(&conversation).cloned().unwrap_or_default()
    }

    /// Returns the appends' sizes so far.
    pub(super) fn appends(&self) -> Vec<usize> {
        self.appends.lock().clone()
    }

    /// The numbers that were read so far.
    pub(super) fn reads(&self) -> Vec<(Seq, Seq)> {
        self.reads.lock().clone()
    }

    fn numbered(&self, conversation: ConversationId) -> impl DoubleEndedIterator<Item = Message> {
        (1..).zip(self.log(conversation)).map(|(seq, new)| new.numbered(seq)).collect::<Vec<_>>().into_iter()
    }

    fn available(&self) -> Result<(), StoreError> {
        if self.is_away.load(Ordering::Relaxed) { Err(unavailable(Outcome::NotApplied)) } else { Ok(()) }
    }

    fn add(&self, conversation: ConversationId, new: &NewMessage) -> Appended {
        let mut logs = self.logs.lock();
        let log = logs.entry(conversation).or_default();
        match (1..).zip(&*log).find(|(_, old)| old.key == new.key) {
            Some((_, old)) if old.hash != new.hash => Appended::OtherContent,
            Some((seq, old)) => Appended::Replayed { seq, sent: old.sent },
            None => {
                log.push(new.clone());
                Appended::New(Seq::try_from(log.len()).unwrap())
            }
        }
    }
}

partial! {
    MessageStore for FakeLogs {
        async fn append(
            &self,
            conversation: ConversationId,
            batch: &[NewMessage],
        ) -> Result<Vec<Appended>, StoreError> {
            self.available()?;
            self.appends.lock().push(batch.len());
            let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(now, Ordering::SeqCst);
            if !self.append_time.is_zero() {
                sleep(self.append_time).await;
            }
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            let fault = self.faults.lock().pop_front();
            let add_all = || batch.iter().map(|new| self.add(conversation, new)).collect();
            match fault {
                None => Ok(add_all()),
                Some(AppendFault::NotApplied) => Err(unavailable(Outcome::NotApplied)),
                Some(AppendFault::Lost) => Err(unavailable(Outcome::Unknown)),
                Some(AppendFault::Landed) => {
                    let _landed: Vec<Appended> = add_all();
                    Err(unavailable(Outcome::Unknown))
                }
                Some(AppendFault::Overloaded) => Err(StoreError::Overloaded),
                Some(AppendFault::Full) => {
                    Err(StoreError::Full { source: Arc::new(std::io::Error::other("full")) })
                }
                Some(AppendFault::Hangs) => std::future::pending().await,
            }
        }

        async fn messages(
            &self,
            conversation: ConversationId,
            first: Seq,
            last: Seq,
        ) -> Result<Vec<Message>, StoreError> {
            self.available()?;
            self.reads.lock().push((first, last));
            // Answers come later, so that reads that are ahead have begun.
            tokio::task::yield_now().await;
            let trimmed = self.trimmed.lock().get(&conversation).copied().unwrap_or_default();
            let is_asked = |message: &Message| (first.max(trimmed + 1)..=last).contains(&message.seq);
            Ok(self.numbered(conversation).filter(is_asked).collect())
        }

        async fn document(&self, key: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
            let messages = self.messages(key.conversation, key.first(), key.first() + DOCUMENT - 1).await?;
            Ok(Some(LogDocument { key, version: Version::FIRST, messages }))
        }

        async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
            self.available()?;
            let end =
                |log: &ConversationId| LogEnd { seq: Seq::try_from(self.log(*log).len()).unwrap(), sent: None };
            Ok(conversations.iter().map(end).collect())
        }

        async fn seq_at(&self, conversation: ConversationId, time: Timestamp) -> Result<Seq, StoreError> {
            let end = Seq::try_from(self.log(conversation).len()).unwrap();
            let found = self.numbered(conversation).find(|message| message.sent >= time);
            Ok(found.map_or(end + 1, |message| message.seq))
        }
    }
    fn headers(ConversationId, Seq, Seq) -> Result<Vec<StoredHeader>, StoreError>;
    fn heads(&[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError>;
    fn strong_end(ConversationId) -> Result<Seq, StoreError>;
    fn change(ConversationId, &MessageChange) -> Result<MessageChangeOutcome, StoreError>;
}
