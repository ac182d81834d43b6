//! Conversation messages: the last messages by their windows, others by documents through the tiers.

use std::sync::Arc;

use futures::FutureExt as _;
use kith_cache::{Consistency, LoadError, Moment, Node, Policy, TieredCache, WriteParts};
use kith_delivery::{HeadOf, RecentMessages, RequestedMessages, Span, Windows};
use kith_store::{
    Appended, BATCH_MAX, ConversationId, DocumentKey, LogDocument, LogEnd, Message, MessageStore, NewMessage,
    NodeName, Seq, Stored, document_of,
};

use super::{
    AtLeast, documents::DocumentCodec, event::is_erasure, range::store_error, reaction::ReactionRecords,
    unseen::UnseenEnds, waiting::SentWhen,
};
use crate::{error::Error, rpc::versions::loaded, write::caches::CacheFactory};

/// A deployment's messages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Logs {
    pub(super) store: Arc<dyn MessageStore>,
    pub(super) windows: Windows,
    pub(super) documents: TieredCache<DocumentKey, LogDocument>,
    /// `None`: there are no reactions that end with messages.
    pub(super) reactions: Option<ReactionRecords>,
    unseen: Arc<UnseenEnds>,
    node: Node,
}

/// The additions that an append makes to a log.
#[derive(Debug)]
pub(super) struct LogAdditions {
    /// The messages that were appended, each run of contiguous numbers separately: between two runs are
    /// others' messages, or existing messages.
    pub(super) runs: Vec<Vec<Message>>,
    /// The highest number, also for a message that an earlier append had stored; `None`: none has a number.
    pub(super) last: Option<Seq>,
    /// The numbers that an earlier append had stored.
    pub(super) replayed: Vec<Seq>,
    /// Whether users are notified about them.
    pub(super) is_announced: bool,
}

/// Numbers that no message has: only the end is requested.
pub(super) const NONE: Span = Span { first: 1, last: 0 };

impl Logs {
    /// Creates it with its own namespace in the tiers, which must be strict. `windows`: the windows of all
    /// conversations.
    #[must_use]
    pub fn new(
        store: Arc<dyn MessageStore>,
        caches: &CacheFactory,
        policy: Policy<LogDocument>,
        windows: Windows,
    ) -> Self {
        // One read for each: a store answer must not contain many. No caller reads them strongly.
        let documents = caches.records(policy, DocumentCodec, &store, |store, keys, _| {
            async move {
                let mut found = Vec::with_capacity(keys.len());
                for key in keys {
                    let document = store.document(*key).await.map_err(LoadError::new)?;
                    let stored = document.map_or(Stored::Never, |document| Stored::Live(Arc::new(document)));
                    found.push((*key, loaded(stored)));
                }
                Ok(found)
            }
            .boxed()
        });
        Self {
            store,
            windows,
            documents,
            reactions: None,
            unseen: Arc::default(),
            node: caches.node().clone(),
        }
    }

    /// Creates logs whose changed messages end these reactions.
    #[must_use]
    pub fn with_reactions(self, reactions: ReactionRecords) -> Self {
        Self { reactions: Some(reactions), ..self }
    }

    /// Marks the copies that show reactions to a document's messages, for a write that may end some.
    pub(super) async fn begin_reactions_end(&self, key: DocumentKey) -> Option<WriteParts> {
        match &self.reactions {
            Some(reactions) => Some(reactions.begin_end(key).await),
            None => None,
        }
    }

    /// A log's end, and the requested messages that are among the last messages. `at_least`: a number that
    /// the caller knows to exist.
    pub(super) async fn recent(
        &self,
        conversation: ConversationId,
        asked: RequestedMessages,
        at_least: Seq,
    ) -> Result<RecentMessages, Error> {
        let at_least = self.unseen.end(conversation).max(at_least);
        self.windows.read(conversation, asked, at_least).await.map_err(store_error)
    }

    /// Reads a window for lists: its end, and the headers above `after`. `at_least`: a number that the caller
    /// knows to exist.
    pub(super) fn head_of(&self, conversation: ConversationId, after: Seq, at_least: Seq) -> HeadOf {
        HeadOf { conversation, after, at_least: self.unseen.end(conversation).max(at_least) }
    }

    /// A log's end, also right after a store failover.
    pub(super) async fn strong_end(&self, conversation: ConversationId) -> Result<Seq, Error> {
        self.store.strong_end(conversation).await.map_err(store_error)
    }

    /// The messages with these numbers, which are in one document in a log that has messages up to `end`:
    /// through the tiers, or from the store if it is the last document.
    pub(super) async fn stored(
        &self,
        conversation: ConversationId,
        span: Span,
        end: Seq,
    ) -> Result<Vec<Message>, Error> {
        let document = document_of(span.first);
        if document < document_of(end) {
            let key = DocumentKey { conversation, document };
            let found = self.documents.get_with(&key, &Consistency::Cached).await;
            let found = found.map_err(|error| Error::cache("message", &error))?;
            return Ok(found
                .map(|entry| entry.value.between(span.first, span.last).cloned().collect())
                .unwrap_or_default());
        }
        self.store.messages(conversation, span.first, span.last).await.map_err(store_error)
    }

    /// The logs' ends, in their order. Ends that seem to be below `at_least` are read again.
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

    /// The present time, for [`Self::appended`].
    pub(super) fn now(&self) -> Moment {
        self.windows.now()
    }

    /// Adds an append's messages to the window; the append began at this time. Until the window has them,
    /// reads on this node compare the window with the store. Returns the nodes that are registered at the
    /// conversation; `None`: they are not known.
    pub(super) async fn appended(
        &self,
        conversation: ConversationId,
        added: &LogAdditions,
        began: Moment,
    ) -> Option<Vec<NodeName>> {
        if !self.windows.is_enabled() {
            return None;
        }
        let mut registered = None;
        for run in &added.runs {
            let Some(last) = run.last().map(|message| message.seq) else { continue };
            let changes = run.iter().any(is_erasure);
            match self.windows.append(conversation, run, changes, Some(began)).await {
                Ok(nodes) => {
                    self.unseen.forget(conversation, last);
                    registered = nodes;
                }
                // Other nodes compare the window with the store after 10 s, or for the
                // session of its sender.
                Err(_) => {
                    self.unseen.note(conversation, last);
                    self.node.count_unseen();
                    registered = None;
                }
            }
        }
        // The node that appended it may have died before the window had it.
        if !added.replayed.is_empty() {
            self.doubt(conversation).await;
        }
        registered
    }

    /// Makes the next read compare the window with the store, after an append with unknown outcome.
    pub(super) async fn doubt(&self, conversation: ConversationId) {
        if self.windows.require_check(conversation).await.is_err() {
            self.node.count_unseen();
            tracing::debug!("a window is compared with the store after 10 s");
        }
    }
}

impl LogAdditions {
    /// The lowest message number that users are notified about; `None`: there is none.
    pub(super) fn first_announced(&self) -> Option<Seq> {
        let new = self.runs.iter().flatten().map(|message| message.seq);
        new.chain(self.replayed.iter().copied()).min().filter(|_| self.is_announced)
    }

    /// Marks them as sent elsewhere: no user is notified about them.
    pub(super) fn sent(self, when: SentWhen) -> Self {
        Self { is_announced: when == SentWhen::Now, ..self }
    }

    /// The messages' results.
    pub(super) fn of(messages: &[NewMessage], appended: &[Appended]) -> Self {
        let last = appended.iter().copied().filter_map(seq_of);
        let replayed = appended.iter().filter_map(|one| match one {
            Appended::Replayed { seq, .. } => Some(*seq),
            Appended::New(_) | Appended::OtherContent => None,
        });
        let (last, is_announced) = (last.max(), true);
        Self { runs: runs(messages, appended), last, replayed: replayed.collect(), is_announced }
    }
}

/// A stored message's number.
const fn seq_of(appended: Appended) -> Option<Seq> {
    match appended {
        Appended::New(seq) | Appended::Replayed { seq, .. } => Some(seq),
        Appended::OtherContent => None,
    }
}

/// See [`LogAdditions::runs`].
fn runs(messages: &[NewMessage], appended: &[Appended]) -> Vec<Vec<Message>> {
    let mut runs: Vec<Vec<Message>> = Vec::new();
    for (new, appended) in messages.iter().zip(appended) {
        let Appended::New(seq) = appended else { continue };
        let message = new.clone().numbered(*seq);
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| last.seq + 1 == *seq) => run.push(message),
            _ => runs.push(vec![message]),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::{super::sample::message, *};

    #[test]
    fn runs_end_where_messages_of_others_begin() {
        let messages: Vec<NewMessage> = ["a", "b", "c", "d", "e"].iter().map(|id| message(id, 1)).collect();
        let replayed = Appended::Replayed { seq: 3, sent: messages[0].sent };
        let appended = [99, 100, 102].map(Appended::New);
        let appended = [appended[0], appended[1], replayed, Appended::OtherContent, appended[2]];
        let runs = runs(&messages, &appended);
        let seqs = |run: &Vec<Message>| run.iter().map(|message| message.seq).collect::<Vec<_>>();
        assert_eq!(runs.iter().map(seqs).collect::<Vec<_>>(), [vec![99, 100], vec![102]]);
        assert_eq!(runs[1][0].client_message_id, messages[4].client_message_id);
    }
}
