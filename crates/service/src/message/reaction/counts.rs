//! The counts of reactions that pages of messages have on request.

use std::{collections::HashMap, sync::Arc};

use kith_cache::Consistency;
use kith_proto::message::v1 as wire;
use kith_store::{BATCH_MAX, ConversationId, DocumentKey, KindCount, ReactionSummary, Seq, document_of};

use super::{
    super::{Messages, reading::MessagePage},
    convert,
};
use crate::error::Error;

/// The counts of some documents.
#[derive(Debug, Default)]
pub(in crate::message) struct ReactionCounts(HashMap<DocumentKey, Arc<ReactionSummary>>);

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
            let found = self.reactions.get_many(keys, consistency).await?;
            counts.0.extend(found.into_iter().map(|summary| (summary.key, summary)));
        }
        Ok(counts)
    }
}

impl ReactionCounts {
    /// Whether there are none, or none were wanted.
    pub(in crate::message) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kinds of a message.
    pub(super) fn of(&self, conversation: ConversationId, seq: Seq) -> &[KindCount] {
        self.0.get(&key_of(conversation, seq)).map_or(&[], |summary| summary.of(seq))
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
