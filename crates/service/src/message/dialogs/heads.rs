//! Heads of logs, as lists and counts read them.

use kith_delivery::{EntryHeader, Head};
use kith_store::{
    BATCH_MAX, ConversationId, DOCUMENT, HEADS_AT_ONCE, LogHead, MessageKind, Seq, SeqRange, StoredHeader,
};

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

    /// The heads of these logs, in their order; each with the headers above a number. They come from windows, or from
    /// the store if a window does not have all of them. Those that seem to end below `at_least` are read again from the
    /// store.
    pub(super) async fn heads(
        &self,
        asked: &[(ConversationId, Seq)],
        at_least: &AtLeast,
    ) -> Result<Vec<LogHead>, Error> {
        let mut heads = Vec::with_capacity(asked.len());
        for some in asked.chunks(BATCH_MAX) {
            heads.extend(self.heads_of_windows(some, at_least).await?);
        }
        let missing: Vec<(ConversationId, Seq)> =
            heads.iter().zip(asked).filter(|(head, _)| head.is_none()).map(|(_, asked)| *asked).collect();
        let mut stored = Vec::with_capacity(missing.len());
        for some in missing.chunks(HEADS_AT_ONCE) {
            stored.extend(self.logs.store.heads(some).await.map_err(store_error)?);
        }
        let mut stored = stored.into_iter();
        let head = |head: Option<LogHead>| head.or_else(|| stored.next()).unwrap_or_default();
        let mut heads: Vec<LogHead> = heads.into_iter().map(head).collect();
        at_least.raise_heads(&*self.logs.store, asked, &mut heads).await?;
        Ok(heads)
    }

    async fn heads_of_windows(
        &self,
        asked: &[(ConversationId, Seq)],
        at_least: &AtLeast,
    ) -> Result<Vec<Option<LogHead>>, Error> {
        let logs = asked.iter().map(|(conversation, after)| {
            let known = at_least.seq(*conversation);
            self.logs.head_of(*conversation, *after, known)
        });
        let heads = self.logs.windows.heads(&logs.collect::<Vec<_>>()).await.map_err(store_error)?;
        let head = |(head, (_, after)): (Option<Head>, &(ConversationId, Seq))| {
            head.and_then(|head| whole(head, *after))
        };
        Ok(heads.into_iter().zip(asked).map(head).collect())
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

/// The head that a window has; `None`: large messages left no room for all of it. The headers are those above `after`.
fn whole(head: Head, after: Seq) -> Option<LogHead> {
    let first = (after + 1).max(head.end - DOCUMENT + 1);
    let headers = head.headers.into_iter().map(stored_header).collect();
    (head.first <= first.max(1)).then_some(LogHead { last: head.last, headers })
}

fn stored_header(header: EntryHeader) -> StoredHeader {
    StoredHeader {
        seq: header.seq,
        sender: header.sender,
        silent: header.silent || header.kind == MessageKind::Event,
        recalled: header.recalled,
        mentions: header.mentions,
        mention_all: header.mention_all,
    }
}
