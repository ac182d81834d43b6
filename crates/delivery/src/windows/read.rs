//! Reads of one window.

use std::sync::Arc;

use bytes::Bytes;
use kith_cache::remote::SharedError;
use kith_store::{ConversationId, Message, Seq, StoreError, document_parts};

use super::{Loaded, RecentMessages, RequestedMessages, WindowParts, number};
use crate::{
    Confirm, Fill, FillOutcome, LeaseToken, ServerTime, Span, WindowKeeper, WindowLookup, WindowSnapshot,
    entry, metrics::ReadResult,
};

/// Most lookups of one read; then it reads the store.
const LOOKUPS: usize = 3;
/// Most reads of the store by a fill, if messages arrive in between.
const FILLS: usize = 2;

/// The next step after a lookup.
enum NextStep {
    Answer(RecentMessages),
    LookUpAgain,
    ReadStore,
}

impl WindowParts {
    /// Returns the window's answer, after it was filled or compared with the store if necessary. `None`: the
    /// store must be read, without a fill.
    pub(super) async fn by_window(
        self: &Arc<Self>,
        keeper: &Arc<dyn WindowKeeper>,
        conversation: ConversationId,
        asked: RequestedMessages,
        at_least: Seq,
    ) -> Loaded<Option<RecentMessages>> {
        for _ in 0..LOOKUPS {
            match self.look_up(keeper, conversation, asked, at_least).await? {
                NextStep::Answer(recent) => return Ok(Some(recent)),
                NextStep::LookUpAgain => {}
                NextStep::ReadStore => break,
            }
        }
        Ok(None)
    }

    /// The present last messages in the store.
    pub(super) async fn by_store(
        self: &Arc<Self>,
        conversation: ConversationId,
        asked: RequestedMessages,
    ) -> Loaded<RecentMessages> {
        let this = Arc::clone(self);
        let read = async move { this.load(this.read_store(conversation, asked)).await };
        self.direct.join((conversation, asked), read).await
    }

    /// Whether a window after a lookup may answer a read.
    pub(super) fn is_fresh(&self, window: WindowSnapshot, at_least: Seq) -> bool {
        let is_checked = window.age.is_some_and(|age| age <= self.limits.checked);
        is_checked && window.span.last >= at_least
    }

    async fn look_up(
        self: &Arc<Self>,
        keeper: &Arc<dyn WindowKeeper>,
        conversation: ConversationId,
        asked: RequestedMessages,
        at_least: Seq,
    ) -> Loaded<NextStep> {
        let token = LeaseToken(rand::random());
        match keeper.look_up(conversation, asked.span, token).await {
            Ok(WindowLookup::Hit { window, entries }) => {
                if self.is_behind(keeper, conversation, window, at_least).await? {
                    return Ok(NextStep::LookUpAgain);
                }
                let messages = decoded(&entries, asked.span.overlap(window.span));
                // Without messages a newer program has written an entry, or it is damaged.
                Ok(messages.map_or(NextStep::ReadStore, |messages| {
                    NextStep::Answer(RecentMessages { span: window.span, messages: asked.last_of(messages) })
                }))
            }
            Ok(WindowLookup::Miss { at }) => {
                self.count(ReadResult::Miss);
                let (this, keeper) = (Arc::clone(self), Arc::clone(keeper));
                let fill = async move { this.fill(&*keeper, conversation, at, token).await };
                let recent = self.fills.lead(conversation, fill).await?;
                Ok(NextStep::Answer(recent.within(asked)))
            }
            Ok(WindowLookup::Busy) => {
                self.count(ReadResult::Busy);
                // Another node fills the window, or this node is about to.
                let Some(fill) = self.fills.running(conversation) else { return Ok(NextStep::LookUpAgain) };
                // The fill may have begun before this read did, so its result may be too old: the window is
                // read again.
                fill.await.map(|_| NextStep::LookUpAgain)
            }
            Ok(WindowLookup::Held) => {
                self.count(ReadResult::Held);
                Ok(NextStep::ReadStore)
            }
            Err(_) => {
                self.count(ReadResult::Unavailable);
                Ok(NextStep::ReadStore)
            }
        }
    }

    /// Whether the log goes on above a window. A window that is not fresh is compared with the store.
    async fn is_behind(
        self: &Arc<Self>,
        keeper: &Arc<dyn WindowKeeper>,
        conversation: ConversationId,
        window: WindowSnapshot,
        at_least: Seq,
    ) -> Loaded<bool> {
        let is_fresh = self.is_fresh(window, at_least);
        self.count(if is_fresh { ReadResult::Hit } else { ReadResult::Old });
        Ok(!is_fresh && self.checked_end(keeper, conversation, window.at).await? > window.span.last)
    }

    /// The end of the log, read after this call began, and reported to the window.
    async fn checked_end(
        self: &Arc<Self>,
        keeper: &Arc<dyn WindowKeeper>,
        conversation: ConversationId,
        at: ServerTime,
    ) -> Loaded<Seq> {
        let (this, keeper) = (Arc::clone(self), Arc::clone(keeper));
        let check = async move {
            let end = this.load(this.end(conversation)).await?;
            // If this fails, the next reader compares the window again.
            keeper.confirm(&[Confirm { conversation, at, end }]).await;
            Ok(end)
        };
        self.checks.join(conversation, check).await
    }

    /// Reads the last two documents and makes the window from them. Returns what was read, whether or not the
    /// window was made.
    async fn fill(
        &self,
        keeper: &dyn WindowKeeper,
        conversation: ConversationId,
        at: ServerTime,
        token: LeaseToken,
    ) -> Loaded<RecentMessages> {
        let mut read = 1;
        loop {
            let messages = self.load(self.store.last_documents(conversation)).await?;
            let is_filled = self.fill_with(keeper, conversation, at, token, &messages).await;
            if read == FILLS || !matches!(is_filled, Ok(FillOutcome::Below)) {
                return Ok(RecentMessages { span: span_of(&messages), messages });
            }
            read += 1;
        }
    }

    async fn fill_with(
        &self,
        keeper: &dyn WindowKeeper,
        conversation: ConversationId,
        at: ServerTime,
        token: LeaseToken,
        messages: &[Message],
    ) -> Result<FillOutcome, SharedError> {
        // A message that has no entry is in no window.
        let Some(entries) = self.last_entries(messages) else { return Ok(FillOutcome::Lost) };
        let last = span_of(messages).last;
        let span = Span { first: last - number(entries.len()) + 1, last };
        let fill = Fill { conversation, token, at, span, entries, has_headers: false };
        keeper.fill(&[fill]).await.pop().unwrap_or(Err(SharedError::Unavailable))
    }

    /// The entries of the last messages that have room in a window, by rising number.
    fn last_entries(&self, messages: &[Message]) -> Option<Vec<Bytes>> {
        let (mut entries, mut room) = (Vec::new(), self.limits.bytes);
        for message in messages.iter().rev().take(self.limits.messages) {
            let entry = entry::encode(message)?;
            let Some(left) = room.checked_sub(entry.len()) else { break };
            room = left;
            entries.push(entry);
        }
        entries.reverse();
        Some(entries)
    }

    async fn read_store(
        &self,
        conversation: ConversationId,
        asked: RequestedMessages,
    ) -> Loaded<RecentMessages> {
        let last = self.end(conversation).await?;
        let span = Span { first: (last - number(self.limits.messages) + 1).max(1), last };
        let mut messages = Vec::new();
        let asked = asked.numbers_in(span);
        for (first, last) in document_parts(asked.first, asked.last) {
            messages.extend(self.store.messages(conversation, first, last).await?);
        }
        Ok(RecentMessages { span, messages })
    }

    async fn end(&self, conversation: ConversationId) -> Loaded<Seq> {
        let ends = self.store.ends(&[conversation]).await?;
        ends.first().map(|end| end.seq).ok_or(StoreError::Overloaded)
    }
}

impl RequestedMessages {
    /// Returns the requested numbers within this span.
    fn numbers_in(self, span: Span) -> Span {
        let Span { first, last } = self.span.overlap(span);
        Span { first: first.max(last.saturating_sub(number(self.most)).saturating_add(1)), last }
    }

    /// The last of the messages that were found.
    fn last_of(self, mut found: Vec<Message>) -> Vec<Message> {
        found.drain(..found.len().saturating_sub(self.most));
        found
    }
}

impl RecentMessages {
    /// Removes the messages that were not requested.
    fn within(mut self, asked: RequestedMessages) -> Self {
        let span = asked.span;
        self.messages.retain(|message| (span.first..=span.last).contains(&message.seq));
        Self { messages: asked.last_of(self.messages), ..self }
    }
}

/// Decodes the messages with these numbers; `None`: an entry cannot be read.
fn decoded(entries: &[Bytes], span: Span) -> Option<Vec<Message>> {
    (span.first..).zip(entries).map(|(seq, entry)| entry::decode(entry, seq)).collect()
}

/// Returns the numbers of consecutive messages.
fn span_of(messages: &[Message]) -> Span {
    match (messages.first(), messages.last()) {
        (Some(first), Some(last)) => Span { first: first.seq, last: last.seq },
        _ => Span { first: 1, last: 0 },
    }
}
