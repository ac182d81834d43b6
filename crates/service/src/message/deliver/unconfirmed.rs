//! Messages that a client was sent and may not have: they are entered for pushes when its receiver is lost.

use std::collections::BTreeMap;

use kith_delivery::{Entry, ReadFrom, ReadOutcome};
use kith_store::{ConversationId, SeqRange};

use super::{Delivery, inboxes_unavailable};
use crate::error::Error;

/// The most conversations whose unconfirmed messages are remembered.
const CONVERSATIONS_MAX: usize = 2_000;
/// How many inbox entries are read at once.
const ENTRIES: usize = 200;

/// For each conversation, the messages that a client may not have: one range that contains them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::message) struct UnconfirmedRanges(BTreeMap<ConversationId, SeqRange>);

impl UnconfirmedRanges {
    pub(in crate::message) fn add(&mut self, conversation: ConversationId, seqs: SeqRange) {
        if let Some(known) = self.0.get_mut(&conversation) {
            *known = SeqRange { first: seqs.first.min(known.first), last: seqs.last.max(known.last) };
        } else if self.0.len() < CONVERSATIONS_MAX {
            self.0.insert(conversation, seqs);
        } else {
            tracing::warn!(
                "pushes may lack messages: a client was sent too many conversations since it answered"
            );
        }
    }

    pub(in crate::message) fn add_all(&mut self, others: Self) {
        if self.0.is_empty() {
            *self = others;
            return;
        }
        others.0.into_iter().for_each(|(conversation, seqs)| self.add(conversation, seqs));
    }

    pub(in crate::message) fn clear(&mut self) {
        self.0.clear();
    }

    pub(in crate::message) fn iter(&self) -> impl Iterator<Item = (ConversationId, SeqRange)> {
        self.0.iter().map(|(conversation, seqs)| (*conversation, *seqs))
    }
}

impl Delivery {
    /// Enters messages for pushes to a user, and what the inbox has after a position, unless the user has a
    /// receiver, which gets them.
    pub(in crate::message) async fn announce_unconfirmed(
        &self,
        from: ReadFrom,
        mut unconfirmed: UnconfirmedRanges,
    ) -> Result<(), Error> {
        let receiving = self.0.inboxes.keeper.receiving(&[from.user]).await;
        if !receiving.map_err(|_| inboxes_unavailable())?.is_empty() {
            return Ok(());
        }
        self.add_unread(from, &mut unconfirmed).await?;
        self.announce_to(from.user, &unconfirmed).await
    }

    /// Adds an inbox's entries after a position.
    async fn add_unread(&self, mut from: ReadFrom, all: &mut UnconfirmedRanges) -> Result<(), Error> {
        loop {
            let entries = match self.0.inboxes.keeper.read(&[from], ENTRIES).await.pop() {
                Some(Ok(ReadOutcome::Entries(entries))) => entries,
                Some(Ok(ReadOutcome::Reset)) => {
                    tracing::debug!("pushes may lack messages: an inbox does not reach back to a position");
                    return Ok(());
                }
                Some(Err(_)) => return Err(inboxes_unavailable()),
                None => return Ok(()),
            };
            let Some((last, _)) = entries.last() else { return Ok(()) };
            from.after = *last;
            for (_, entry) in entries {
                if let Entry::Range { conversation, first, last } = entry {
                    all.add(conversation, SeqRange { first: first.unwrap_or(last), last });
                }
            }
        }
    }
}
