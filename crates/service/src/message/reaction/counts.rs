//! The counts of reactions that pages of messages have on request.

use std::sync::Arc;

use kith_cache::Consistency;
use kith_proto::message::v1 as wire;
use kith_store::{BATCH_MAX, ConversationId, DocumentKey, KindCount, ReactionSummary, Seq, document_of};

use super::{
    super::{Messages, reading::MessagePage},
    convert,
};
use crate::error::Error;

/// The most bytes that a kind's count takes in an answer, beside the kind.
const COUNT_BYTES: usize = 12;

/// The counts of some documents, by rising keys.
#[derive(Debug, Default)]
pub(in crate::message) struct ReactionCounts(Vec<Arc<ReactionSummary>>);

impl Messages {
    /// The counts for a page, or none if they are not `wanted`, or the reader's range has ended.
    ///
    /// # Errors
    /// The tiers' errors.
    pub(in crate::message) async fn page_counts(
        &self,
        wanted: bool,
        conversation: ConversationId,
        page: &MessagePage,
    ) -> Result<ReactionCounts, Error> {
        let wanted = wanted && page.range.closed_at.is_none();
        let messages = page.messages.iter().map(|message| (conversation, message.seq)).collect();
        self.reaction_counts(wanted, messages).await
    }

    /// The counts for these messages, or none if they are not `wanted`. Reads one summary for each document.
    ///
    /// # Errors
    /// The tiers' errors.
    pub(in crate::message) async fn reaction_counts(
        &self,
        wanted: bool,
        messages: Vec<(ConversationId, Seq)>,
    ) -> Result<ReactionCounts, Error> {
        if !wanted {
            return Ok(ReactionCounts::default());
        }
        let mut keys: Vec<DocumentKey> = messages.into_iter().map(|(log, seq)| key_of(log, seq)).collect();
        keys.sort_unstable();
        keys.dedup();
        self.counts_of(&keys, &Consistency::Cached).await
    }

    pub(super) async fn counts_of(
        &self,
        keys: &[DocumentKey],
        consistency: &Consistency,
    ) -> Result<ReactionCounts, Error> {
        let mut counts = ReactionCounts::default();
        for keys in keys.chunks(BATCH_MAX) {
            counts.0.extend(self.reactions.get_many(keys, consistency).await?);
        }
        counts.0.sort_unstable_by_key(|summary| summary.key);
        Ok(counts)
    }
}

impl ReactionCounts {
    /// The kinds of a message.
    pub(super) fn of(&self, conversation: ConversationId, seq: Seq) -> &[KindCount] {
        let found = self.0.binary_search_by_key(&key_of(conversation, seq), |summary| summary.key);
        found.map_or(&[], |at| self.0[at].of(seq))
    }

    /// The most bytes that a message's counts take in an answer.
    pub(in crate::message) fn bytes(&self, conversation: ConversationId, seq: Seq) -> usize {
        self.of(conversation, seq).iter().map(|of| of.kind.as_str().len() + COUNT_BYTES).sum()
    }

    /// Adds its counts to a message, unless the message has no content.
    pub(in crate::message) fn add_to(&self, conversation: ConversationId, message: &mut wire::Message) {
        if message.recall.is_none() {
            message.reactions = convert::counts_to_wire(self.of(conversation, message.seq));
        }
    }
}

const fn key_of(conversation: ConversationId, seq: Seq) -> DocumentKey {
    DocumentKey { conversation, document: document_of(seq) }
}
