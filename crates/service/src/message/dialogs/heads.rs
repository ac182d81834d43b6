//! Ends and heads of logs, as lists and counts read them: from the store.

use std::sync::Arc;

use kith_store::{
    BATCH_MAX, ConversationId, HEADS_AT_ONCE, LogEnd, LogHead, Message, MessageStore, Seq, StoredHeader,
};

use crate::{
    error::Error,
    message::{AtLeast, store_error},
};

/// What lists and counts read of logs. What answers before the store comes in here. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    store: Arc<dyn MessageStore>,
}

impl Heads {
    pub(super) const fn new(store: Arc<dyn MessageStore>) -> Self {
        Self { store }
    }

    /// The ends of these logs, in their order. Those that seem to be below `at_least` are read again.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn ends(
        &self,
        conversations: &[ConversationId],
        at_least: &AtLeast,
    ) -> Result<Vec<LogEnd>, Error> {
        let mut ends = Vec::with_capacity(conversations.len());
        for some in conversations.chunks(BATCH_MAX) {
            ends.extend(self.store.ends(some).await.map_err(store_error)?);
        }
        at_least.raise_ends(&*self.store, conversations, &mut ends).await?;
        Ok(ends)
    }

    /// The end of a log, also right after a failover of the store.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn strong_end(&self, conversation: ConversationId) -> Result<Seq, Error> {
        self.store.strong_end(conversation).await.map_err(store_error)
    }

    /// The heads of these logs, in their order; each with the headers above a number. Those that seem to end below `at_least` are
    /// read again.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn heads(
        &self,
        asked: &[(ConversationId, Seq)],
        at_least: &AtLeast,
    ) -> Result<Vec<LogHead>, Error> {
        let mut heads = Vec::with_capacity(asked.len());
        for some in asked.chunks(HEADS_AT_ONCE) {
            heads.extend(self.store.heads(some).await.map_err(store_error)?);
        }
        at_least.raise_heads(&*self.store, asked, &mut heads).await?;
        Ok(heads)
    }

    /// The headers from one number to another, which are in one document.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn headers(
        &self,
        conversation: ConversationId,
        (first, last): (Seq, Seq),
    ) -> Result<Vec<StoredHeader>, Error> {
        self.store.headers(conversation, first, last).await.map_err(store_error)
    }

    /// The message with this number, if it exists.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn message(
        &self,
        conversation: ConversationId,
        seq: Seq,
    ) -> Result<Option<Message>, Error> {
        if seq < 1 {
            return Ok(None);
        }
        Ok(self.store.messages(conversation, seq, seq).await.map_err(store_error)?.pop())
    }
}
