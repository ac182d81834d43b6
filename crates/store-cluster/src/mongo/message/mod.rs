//! Messages: documents with 100 consecutive messages of a conversation.
//!
//! `{_id: {c: conversation, d: document number}, v, t0: first message's time, made, hi: highest time up to
//! the first message, age: the same until upkeep has hidden what is before, m: [message]}`. The message with
//! number `s` is element `(s - 1) % 100` in document `(s - 1) / 100`. Invariants: elements are added at the
//! end, and never removed or moved; document `d + 1` is made only while a majority has document `d`, full; a
//! deleted document is never made again. `hi` never falls within a log. It is absent in documents from an
//! earlier version, and in those that follow a document without it, until upkeep adds it in document order.

mod append;
mod append_commands;
mod change;
mod documents;
mod element;
mod element_change;
mod ends;
mod erasure;
mod fan_out_note;
mod heads;
pub(super) mod hints;
mod read;
pub(super) mod shared_pushes;
#[cfg(test)]
mod tests;
mod upkeep;

use std::ops::Range;

use async_trait::async_trait;
use kith_store::{
    AgedDocument, Appended, CompletedTimes, ConversationId, DocumentKey, LogDocument, LogEnd, LogHead,
    Message, MessageChange, MessageChangeOutcome, MessageStore, MessageUpkeep, NewMessage, SentDocuments,
    Seq, StoreError, StoredHeader, Timestamp, TrimResult, UserId,
};

use super::database::Mongo;
use append::Log;
pub(super) use documents::id as document_id;

#[async_trait]
impl MessageStore for Mongo {
    async fn append(
        &self,
        conversation: ConversationId,
        batch: &[NewMessage],
    ) -> Result<Vec<Appended>, StoreError> {
        let _permit = self.admit()?;
        let log = Log { documents: self, hints: &self.hints, conversation };
        Box::pin(append::append(log, batch, self.options.append)).await
    }

    async fn messages(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<Message>, StoreError> {
        let _permit = self.admit()?;
        self.messages_between(conversation, first, last).await
    }

    async fn document(&self, key: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        let _permit = self.admit()?;
        self.whole_document(key).await
    }

    async fn headers(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<StoredHeader>, StoreError> {
        let _permit = self.admit()?;
        self.headers_between(conversation, first, last).await
    }

    async fn heads(&self, asked: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        let _permit = self.admit()?;
        Box::pin(self.log_heads(asked)).await
    }

    async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        let _permit = self.admit()?;
        self.log_ends(conversations).await
    }

    async fn strong_end(&self, conversation: ConversationId) -> Result<Seq, StoreError> {
        let _permit = self.admit()?;
        self.strong_log_end(conversation).await
    }

    async fn seq_at(&self, conversation: ConversationId, time: Timestamp) -> Result<Seq, StoreError> {
        let _permit = self.admit()?;
        self.first_sent_at(conversation, time).await
    }

    async fn change(
        &self,
        conversation: ConversationId,
        change: &MessageChange,
    ) -> Result<MessageChangeOutcome, StoreError> {
        let _permit = self.admit()?;
        Box::pin(self.change_message(conversation, change)).await
    }
}

#[async_trait]
impl MessageUpkeep for Mongo {
    async fn trim(
        &self,
        conversation: ConversationId,
        below: Seq,
        now: Timestamp,
    ) -> Result<TrimResult, StoreError> {
        let _permit = self.admit()?;
        self.trim_log(conversation, below, now).await
    }

    async fn aged(&self, highest: Range<Timestamp>, limit: usize) -> Result<Vec<AgedDocument>, StoreError> {
        let _permit = self.admit()?;
        self.aged_documents(highest, limit).await
    }

    async fn settle_aged(&self, documents: &[AgedDocument]) -> Result<(), StoreError> {
        let _permit = self.admit()?;
        self.settle_aged_documents(documents).await
    }

    async fn complete_times(
        &self,
        from: Option<DocumentKey>,
        limit: usize,
    ) -> Result<CompletedTimes, StoreError> {
        let _permit = self.admit()?;
        self.complete_document_times(from, limit).await
    }

    async fn documents_sent_by(
        &self,
        conversation: ConversationId,
        sender: UserId,
        from: Seq,
    ) -> Result<SentDocuments, StoreError> {
        let _permit = self.admit()?;
        self.find_documents_sent_by(conversation, sender, from).await
    }

    async fn erase_document(
        &self,
        conversation: ConversationId,
        first: Seq,
        sender: UserId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let _permit = self.admit()?;
        self.erase_in_document(conversation, first, sender, now).await
    }
}
