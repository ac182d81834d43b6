//! Reads the heads of logs for lists and counts.

use kith_store::{BATCH_MAX, ConversationId, LogHead, Seq, SeqRange, StoredHeader};

use crate::{
    dialog::HeadReader,
    error::Error,
    message::{AtLeast, Logs, store_error},
};

/// Reads of logs for lists and counts. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::message) struct LogHeads {
    logs: Logs,
}

impl LogHeads {
    pub(in crate::message) const fn new(logs: Logs) -> Self {
        Self { logs }
    }

    /// The heads of these logs, in their order; each with the headers above a number. Those that seem to end
    /// below `at_least` are read again from the store.
    pub(super) async fn heads(
        &self,
        asked: &[(ConversationId, Seq)],
        at_least: &AtLeast,
    ) -> Result<Vec<LogHead>, Error> {
        let mut heads = Vec::with_capacity(asked.len());
        for some in asked.chunks(BATCH_MAX) {
            let logs = some.iter().map(|(conversation, after)| {
                self.logs.head_of(*conversation, *after, at_least.seq(*conversation))
            });
            heads.extend(self.logs.windows.heads(&logs.collect::<Vec<_>>()).await.map_err(store_error)?);
        }
        at_least.raise_heads(&*self.logs.store, asked, &mut heads).await?;
        Ok(heads)
    }

    /// The headers from one number to another, which are in one document.
    pub(super) async fn headers(
        &self,
        conversation: ConversationId,
        seqs: SeqRange,
    ) -> Result<Vec<StoredHeader>, Error> {
        self.logs.store.headers(conversation, seqs.first, seqs.last).await.map_err(store_error)
    }
}

#[async_trait::async_trait]
impl HeadReader for LogHeads {
    async fn heads(&self, asked: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, Error> {
        Self::heads(self, asked, &AtLeast::default()).await
    }
}
