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
        unreachable!("windows read whole messages")
    }

    async fn heads(&self, _: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        unreachable!("windows read whole messages")
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
            both.extend(self.0.messages(log, first - 100, first - 1).await?);
        }
        both.extend(self.0.messages(log, first, first + 99).await?);
        Ok(both)
    }

    async fn document(&self, _: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        unreachable!("windows read the last documents")
    }

    async fn headers(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<StoredHeader>, StoreError> {
        unreachable!("windows read whole messages")
    }

    async fn heads(&self, _: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        unreachable!("windows read whole messages")
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
