//! The log as a store: each read is a step.

use std::sync::Arc;

use async_trait::async_trait;
use kith_store::{
    Appended, ConversationId, DocumentKey, LogDocument, LogEnd, LogHead, Message, MessageChange,
    MessageChangeOutcome, MessageStore, NewMessage, Seq, StoreError, StoredHeader, Timestamp, document_of,
};
use parking_lot::Mutex;

use super::{stage::Stage, truth::Truth};

#[derive(Clone, Debug)]
pub(super) struct ModelLog {
    pub(super) truth: Arc<Mutex<Truth>>,
    pub(super) stage: Arc<Stage>,
}

impl ModelLog {
    /// The messages in the document in which the log ends.
    fn last_document(&self, end: Seq) -> Vec<Message> {
        self.truth.lock().read(end.max(1) - (end.max(1) - 1) % 100, end)
    }

    /// A head with this last document; the one before it is read now.
    fn head(&self, above: Seq, last: &[Message]) -> LogHead {
        let end = last.last().map_or(0, |last| last.seq);
        let before =
            self.truth.lock().read((above + 1).max(end - 99), end - Seq::try_from(last.len()).unwrap());
        let all = before.iter().chain(last).filter(|message| message.seq > above && message.seq > end - 100);
        LogHead { last: last.last().cloned(), headers: all.map(StoredHeader::of).collect() }
    }
}

#[async_trait]
impl MessageStore for ModelLog {
    async fn append(&self, _: ConversationId, _: &[NewMessage]) -> Result<Vec<Appended>, StoreError> {
        unreachable!("actors append by themselves")
    }

    async fn messages(&self, _: ConversationId, first: Seq, last: Seq) -> Result<Vec<Message>, StoreError> {
        assert_eq!(document_of(first), document_of(last), "one document");
        self.stage.gate().await;
        Ok(self.truth.lock().read(first, last))
    }

    async fn document(&self, _: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        unreachable!("windows read the last documents")
    }

    async fn headers(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<StoredHeader>, StoreError> {
        unreachable!("windows read heads")
    }

    async fn heads(&self, asked: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        self.stage.gate().await;
        let end = self.truth.lock().end();
        let last = self.last_document(end);
        self.stage.gate().await;
        Ok(asked.iter().map(|(_, above)| self.head(*above, &last)).collect())
    }

    async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        self.stage.gate().await;
        let seq = self.truth.lock().end();
        Ok(conversations.iter().map(|_| LogEnd { seq, sent: (seq > 0).then_some(Timestamp(seq)) }).collect())
    }

    async fn strong_end(&self, _: ConversationId) -> Result<Seq, StoreError> {
        unreachable!("windows need no strong end")
    }

    async fn seq_at(&self, _: ConversationId, _: Timestamp) -> Result<Seq, StoreError> {
        unreachable!("windows know no times")
    }

    async fn change(&self, _: ConversationId, _: &MessageChange) -> Result<MessageChangeOutcome, StoreError> {
        unreachable!("actors change messages by themselves")
    }
}

/// Reads the document before the last first, as a cache of full documents would have it.
#[derive(Debug)]
pub(super) struct OldestFirst(pub(super) ModelLog);

#[async_trait]
impl MessageStore for OldestFirst {
    async fn append(&self, log: ConversationId, batch: &[NewMessage]) -> Result<Vec<Appended>, StoreError> {
        self.0.append(log, batch).await
    }

    async fn messages(&self, log: ConversationId, first: Seq, last: Seq) -> Result<Vec<Message>, StoreError> {
        self.0.messages(log, first, last).await
    }

    async fn last_documents(&self, log: ConversationId) -> Result<Vec<Message>, StoreError> {
        let end = self.0.truth.lock().end();
        if end == 0 {
            return Ok(Vec::new());
        }
        let first = document_of(end) * 100 + 1;
        let mut both = Vec::new();
        if first > 1 {
            both = self.0.messages(log, first - 100, first - 1).await?;
        }
        both.extend(self.0.messages(log, first, first + 99).await?);
        Ok(both)
    }

    async fn document(&self, _: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        unreachable!("windows read the last documents")
    }

    async fn headers(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<StoredHeader>, StoreError> {
        unreachable!("windows read heads")
    }

    async fn heads(&self, asked: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        let end = self.0.truth.lock().end();
        let before = self.0.truth.lock().read(1, end);
        self.0.stage.gate().await;
        let mut all = before;
        all.extend(self.0.truth.lock().read(end + 1, Seq::MAX - 1));
        let end = all.last().map_or(0, |last| last.seq);
        let head = |above: Seq| {
            let some = all.iter().filter(|message| message.seq > above && message.seq > end - 100);
            LogHead { last: all.last().cloned(), headers: some.map(StoredHeader::of).collect() }
        };
        Ok(asked.iter().map(|(_, above)| head(*above)).collect())
    }

    async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        self.0.ends(conversations).await
    }

    async fn strong_end(&self, log: ConversationId) -> Result<Seq, StoreError> {
        self.0.strong_end(log).await
    }

    async fn seq_at(&self, log: ConversationId, time: Timestamp) -> Result<Seq, StoreError> {
        self.0.seq_at(log, time).await
    }

    async fn change(
        &self,
        log: ConversationId,
        change: &MessageChange,
    ) -> Result<MessageChangeOutcome, StoreError> {
        self.0.change(log, change).await
    }
}
