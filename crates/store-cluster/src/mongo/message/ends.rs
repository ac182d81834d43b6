//! The ends of logs.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{BATCH_MAX, ConversationId, LogEnd, Outcome, Seq, StoreError, at_most};
use mongodb::{bson::doc, options::ReadConcern};
use tokio::time::Instant;

use super::{
    super::{
        database::Mongo,
        error::{out_of_time, read_failed},
    },
    documents::{
        DocumentSummary, Documents as _, conversation_in, id, reply_size, size_and_time, summary_in,
    },
};

/// Conversations in one query, by hints.
const CONVERSATIONS: usize = 250;
/// Concurrent queries for conversations without a hint.
const TAILS_AT_ONCE: usize = 16;

/// Two consecutive documents, if they exist.
#[derive(Clone, Copy, Debug, Default)]
struct ConsecutiveDocuments {
    here: Option<DocumentSummary>,
    next: Option<DocumentSummary>,
}

impl ConsecutiveDocuments {
    /// The log's last document. `None`: neither exists, or others may follow.
    fn last(self) -> Option<DocumentSummary> {
        match self.next {
            Some(next) => Some(next).filter(|next| !next.is_full()),
            None => self.here,
        }
    }
}

impl Mongo {
    /// See [`MessageStore::ends`](kith_store::MessageStore::ends).
    pub(super) async fn log_ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        at_most(conversations.len(), BATCH_MAX)?;
        let mut unknown: HashSet<ConversationId> = conversations.iter().copied().collect();
        let hinted = unknown.iter().filter_map(|log| self.hints.get(*log).map(|document| (*log, document)));
        let hinted: Vec<(ConversationId, i64)> = hinted.collect();
        let mut ends = HashMap::with_capacity(unknown.len());
        for some in hinted.chunks(CONVERSATIONS) {
            ends.extend(self.ends_by_hints(some).await?);
        }
        unknown.retain(|log| !ends.contains_key(log));
        let tails = stream::iter(unknown).map(|log| self.end_by_tail(log));
        let tails: Vec<(ConversationId, LogEnd)> =
            tails.buffer_unordered(TAILS_AT_ONCE).try_collect().await?;
        ends.extend(tails);
        Ok(conversations.iter().map(|log| ends.get(log).copied().unwrap_or_default()).collect())
    }

    /// See [`MessageStore::strong_end`](kith_store::MessageStore::strong_end). Looks at the hinted document
    /// first, then at the tail.
    pub(super) async fn strong_log_end(&self, conversation: ConversationId) -> Result<Seq, StoreError> {
        let (give_up, mut hint) = (Instant::now() + self.options.append, self.hints.get(conversation));
        while Instant::now() < give_up {
            let document = match hint.take() {
                Some(document) => Some(document),
                None => self.tail(conversation).await?.map(|tail| tail.document),
            };
            let asked = [(conversation, document.unwrap_or(0))];
            let pairs = self.pairs(&asked, ReadConcern::linearizable()).await?;
            let pair = pairs.get(&conversation).copied().unwrap_or_default();
            match pair.last() {
                Some(last) => return Ok(last.end().seq),
                None if document.is_none() && pair.next.is_none() => return Ok(0),
                // The hint is old, the document was deleted, a deposed primary returned the tail, or many
                // messages arrived since.
                None => {}
            }
        }
        Err(out_of_time(Outcome::NotApplied))
    }

    async fn ends_by_hints(
        &self,
        hinted: &[(ConversationId, i64)],
    ) -> Result<Vec<(ConversationId, LogEnd)>, StoreError> {
        let pairs = self.pairs(hinted, ReadConcern::majority()).await?;
        let lasts = pairs.into_iter().filter_map(|(log, pair)| Some((log, pair.last()?)));
        Ok(lasts.map(|(log, last)| (log, self.learn(log, &last))).collect())
    }

    async fn end_by_tail(
        &self,
        conversation: ConversationId,
    ) -> Result<(ConversationId, LogEnd), StoreError> {
        let tail = self.tail(conversation).await?;
        let end = tail.map_or_else(LogEnd::default, |tail| self.learn(conversation, &tail));
        Ok((conversation, end))
    }

    /// Keeps the last document's number as a hint, as long as it has room: an append to a full document would
    /// match nothing.
    fn learn(&self, conversation: ConversationId, last: &DocumentSummary) -> LogEnd {
        if !last.is_full() {
            self.hints.set(conversation, last.document);
        }
        last.end()
    }

    /// Reads these documents and the document after each, in one query.
    async fn pairs(
        &self,
        hinted: &[(ConversationId, i64)],
        concern: ReadConcern,
    ) -> Result<HashMap<ConversationId, ConsecutiveDocuments>, StoreError> {
        let ids = hinted.iter().flat_map(|(log, document)| [id(*log, *document), id(*log, document + 1)]);
        let find = self.messages.find(doc! { "_id": { "$in": ids.collect::<Vec<_>>() } });
        let find = find.projection(size_and_time()).batch_size(reply_size(2 * hinted.len()));
        let find = find.read_concern(concern).max_time(self.options.command);
        let mut cursor = find.await.map_err(read_failed)?;
        let hints: HashMap<ConversationId, i64> = hinted.iter().copied().collect();
        let mut pairs: HashMap<ConversationId, ConsecutiveDocuments> = HashMap::with_capacity(hinted.len());
        while cursor.advance().await.map_err(read_failed)? {
            let (log, tail) = (conversation_in(cursor.current())?, summary_in(cursor.current())?);
            let pair = pairs.entry(log).or_default();
            let is_here = hints.get(&log) == Some(&tail.document);
            *(if is_here { &mut pair.here } else { &mut pair.next }) = Some(tail);
        }
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(document: i64, size: i64) -> Option<DocumentSummary> {
        Some(DocumentSummary { document, size, sent: None, highest: None })
    }

    fn end(here: Option<DocumentSummary>, next: Option<DocumentSummary>) -> Option<Seq> {
        ConsecutiveDocuments { here, next }.last().map(|last| last.end().seq)
    }

    #[test]
    fn last_of_two_documents_is_end_unless_full() {
        assert_eq!(end(with(3, 7), None), Some(307));
        assert_eq!(end(with(3, 100), None), Some(400), "no next one was made");
        assert_eq!(end(with(3, 100), with(4, 7)), Some(407));
        assert_eq!(end(with(3, 100), with(4, 100)), None, "another may follow");
        assert_eq!(end(None, with(4, 7)), Some(407), "the hint was deleted");
        assert_eq!(end(None, None), None);
    }
}
