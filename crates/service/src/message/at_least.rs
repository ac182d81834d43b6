//! Numbers that callers know to exist, and the reads that are repeated because of them: for some seconds
//! after a store failover, a log may seem to end below them.

use std::{collections::HashMap, error, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_proto::message::v1 as wire;
use kith_store::{ConversationId, HEADS_AT_ONCE, LogEnd, LogHead, MessageStore, Outcome, Seq, StoreError};

use super::{convert::number, range::store_error};
use crate::{
    error::{Error, valid},
    rpc::batch::check_count,
};

/// The most positions in a request.
const POSITIONS_MAX: usize = 100;
/// Ends that are read again at the same time.
const READ_AT_ONCE: usize = 16;
const _: () = assert!(POSITIONS_MAX <= HEADS_AT_ONCE, "heads are read again at once");

/// For some conversations, a number that the caller knows to exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct AtLeast {
    known: HashMap<ConversationId, Seq>,
    /// The number of any conversation.
    of_all: Seq,
}

impl AtLeast {
    /// The same number for each conversation.
    pub(crate) fn of_all(seq: Seq) -> Self {
        Self { of_all: seq, ..Self::default() }
    }

    /// Reads a request's positions. If a conversation is named twice, the higher number counts. `of_all`: the
    /// number of any conversation.
    ///
    /// # Errors
    /// If there are too many, or a position is invalid.
    pub(crate) fn of_request(positions: &[wire::Position], of_all: Seq) -> Result<Self, Error> {
        check_count("at_least", positions.len(), POSITIONS_MAX)?;
        let mut known = HashMap::with_capacity(positions.len());
        for position in positions {
            let conversation = valid("at_least.conversation_id", position.conversation_id.parse())?;
            let seq = number("at_least.seq", position.seq)?;
            let known = known.entry(conversation).or_insert(seq);
            *known = seq.max(*known);
        }
        Ok(Self { known, of_all })
    }

    /// A conversation's known number; 0: none.
    pub(super) fn seq(&self, conversation: ConversationId) -> Seq {
        self.known.get(&conversation).copied().unwrap_or_default().max(self.of_all)
    }

    /// Reads the ends again that are below the known numbers, in a way that a failover does not affect.
    pub(crate) async fn raise_ends(
        &self,
        store: &dyn MessageStore,
        conversations: &[ConversationId],
        ends: &mut [LogEnd],
    ) -> Result<(), Error> {
        let seqs = ends.iter().map(|end| end.seq);
        for (index, seq) in self.raised(store, conversations.iter().copied().zip(seqs).collect()).await? {
            let read = store.messages(conversations[index], seq, seq).await.map_err(store_error)?;
            let last = read.first().ok_or_else(|| store_error(message_missing()))?;
            ends[index] = LogEnd { seq, sent: Some(last.sent) };
        }
        Ok(())
    }

    /// Like `raise_ends`, but for heads; `asked`: the arguments for the first read.
    pub(crate) async fn raise_heads(
        &self,
        store: &dyn MessageStore,
        asked: &[(ConversationId, Seq)],
        heads: &mut [LogHead],
    ) -> Result<(), Error> {
        let logs = asked.iter().zip(&*heads).map(|((conversation, _), head)| (*conversation, end_of(head)));
        let raised = self.raised(store, logs.collect()).await?;
        if raised.is_empty() {
            return Ok(());
        }
        let again: Vec<_> = raised.iter().map(|(index, _)| asked[*index]).collect();
        let again = store.heads(&again).await.map_err(store_error)?;
        for ((index, seq), head) in raised.into_iter().zip(again) {
            if end_of(&head) < seq {
                return Err(store_error(message_missing()));
            }
            heads[index] = head;
        }
        Ok(())
    }

    /// The logs that end above the number that was read: each one's index and end.
    async fn raised(
        &self,
        store: &dyn MessageStore,
        logs: Vec<(ConversationId, Seq)>,
    ) -> Result<Vec<(usize, Seq)>, Error> {
        let below =
            logs.into_iter().enumerate().filter(|(_, (conversation, end))| *end < self.seq(*conversation));
        let strong = below.map(|(index, (conversation, end))| async move {
            let strong = store.strong_end(conversation).await?;
            Ok((strong > end).then_some((index, strong)))
        });
        let strong = stream::iter(strong.collect::<Vec<_>>()).buffered(READ_AT_ONCE);
        let raised: Vec<_> = strong.try_collect().await.map_err(store_error)?;
        Ok(raised.into_iter().flatten().collect())
    }
}

/// The error for a store that does not return a message that it has acknowledged.
fn message_missing() -> StoreError {
    let source = Box::<dyn error::Error + Send + Sync>::from("the last message of a log is not there");
    StoreError::Unavailable { outcome: Outcome::NotApplied, source: Arc::from(source) }
}

fn end_of(head: &LogHead) -> Seq {
    head.last.as_ref().map_or(0, |last| last.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(conversation_id: &str, seq: i64) -> wire::Position {
        wire::Position { conversation_id: conversation_id.to_owned(), seq }
    }

    #[test]
    fn higher_number_of_a_conversation_counts() {
        let known =
            AtLeast::of_request(&[position("g9", 5), position("g9", 7), position("g9", 6)], 0).unwrap();
        assert_eq!(known.seq("g9".parse().unwrap()), 7);
        assert_eq!(known.seq("g8".parse().unwrap()), 0);
    }
}
