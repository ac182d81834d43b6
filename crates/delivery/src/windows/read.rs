//! Reads of one window.

use std::sync::Arc;

use bytes::Bytes;
use kith_cache::remote::SharedError;
use kith_store::{ConversationId, Message, Seq, StoreError, document_parts};

use super::{Loaded, Recent, Wanted, WindowParts, number};
use crate::{
    Confirm, Fill, Filled, LeaseToken, Looked, ServerTime, Span, WindowKeeper, WindowSeen, entry,
    metrics::Read,
};

/// Most looks of one read; then it reads the store.
const LOOKS: usize = 3;
/// Most reads of the store by a fill, if messages arrive in between.
const FILLS: usize = 2;

/// The next step after a look.
enum Next {
    Answer(Recent),
    LookAgain,
    ReadStore,
}

impl WindowParts {
    /// The answer of the window, after it was filled or compared with the store if necessary. `None`: the store must be
    /// read, without a fill.
    pub(super) async fn by_window(
        self: &Arc<Self>,
        keeper: &Arc<dyn WindowKeeper>,
        conversation: ConversationId,
        asked: Wanted,
        at_least: Seq,
    ) -> Loaded<Option<Recent>> {
        for _ in 0..LOOKS {
            match self.look(keeper, conversation, asked, at_least).await? {
                Next::Answer(recent) => return Ok(Some(recent)),
                Next::LookAgain => {}
                Next::ReadStore => break,
            }
        }
        Ok(None)
    }

    /// The present last messages in the store.
    pub(super) async fn by_store(
        self: &Arc<Self>,
        conversation: ConversationId,
        asked: Wanted,
    ) -> Loaded<Recent> {
        let this = Arc::clone(self);
        let read = async move { this.load(this.read_store(conversation, asked)).await };
        self.direct.join((conversation, asked), read).await
    }

    /// Whether a window after a look may answer a read.
    pub(super) fn is_fresh(&self, window: &WindowSeen, at_least: Seq) -> bool {
        let is_checked = window.age.is_some_and(|age| age <= self.limits.checked);
        is_checked && window.span.last >= at_least
    }

    async fn look(
        self: &Arc<Self>,
        keeper: &Arc<dyn WindowKeeper>,
        conversation: ConversationId,
        asked: Wanted,
        at_least: Seq,
    ) -> Loaded<Next> {
        let token = LeaseToken(rand::random());
        match keeper.look(conversation, asked.span, token).await {
            Ok(Looked::Hit(window)) => self.seen(keeper, conversation, asked, at_least, &window).await,
            Ok(Looked::Miss { at }) => {
                self.count(Read::Miss);
                let (this, keeper) = (Arc::clone(self), Arc::clone(keeper));
                let fill = async move { this.fill(&*keeper, conversation, at, token).await };
                let recent = self.fills.lead(conversation, fill).await?;
                Ok(Next::Answer(recent.within(asked)))
            }
            Ok(Looked::Busy) => {
                self.count(Read::Busy);
                // Another node fills it, or this one is about to.
                let Some(fill) = self.fills.running(conversation) else { return Ok(Next::LookAgain) };
                // The fill may have begun before this read did, so its result may be too old: the window is read again.
                fill.await.map(|_| Next::LookAgain)
            }
            Ok(Looked::Held) => {
                self.count(Read::Held);
                Ok(Next::ReadStore)
            }
            Err(_) => {
                self.count(Read::Away);
                Ok(Next::ReadStore)
            }
        }
    }

    async fn seen(
        self: &Arc<Self>,
        keeper: &Arc<dyn WindowKeeper>,
        conversation: ConversationId,
        asked: Wanted,
        at_least: Seq,
        window: &WindowSeen,
    ) -> Loaded<Next> {
        let is_fresh = self.is_fresh(window, at_least);
        self.count(if is_fresh { Read::Hit } else { Read::Old });
        if !is_fresh && self.checked_end(keeper, conversation, window.at).await? > window.span.last {
            return Ok(Next::LookAgain);
        }
        let messages = decoded(&window.entries, asked.span.overlap(window.span));
        let messages = messages.map(|messages| asked.last_of(messages));
        // A newer program has written it, or it is damaged.
        Ok(messages.map_or(Next::ReadStore, |messages| Next::Answer(Recent { span: window.span, messages })))
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
            // Unconfirmed, the window is compared again by the next reader.
            keeper.confirm(&[Confirm { conversation, at, end }]).await;
            Ok(end)
        };
        self.checks.join(conversation, check).await
    }

    /// Reads the last two documents and makes the window of them. Returns what was read, whether or not the window was made.
    async fn fill(
        &self,
        keeper: &dyn WindowKeeper,
        conversation: ConversationId,
        at: ServerTime,
        token: LeaseToken,
    ) -> Loaded<Recent> {
        let mut read = 1;
        loop {
            let messages = self.load(self.store.last_documents(conversation)).await?;
            let is_filled = self.fill_with(keeper, conversation, at, token, &messages).await;
            if read == FILLS || !matches!(is_filled, Ok(Filled::Below)) {
                return Ok(Recent { span: span_of(&messages), messages });
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
    ) -> Result<Filled, SharedError> {
        // A message that has no entry is in no window.
        let Some(entries) = self.last_entries(messages) else { return Ok(Filled::Lost) };
        let last = span_of(messages).last;
        let span = Span { first: last - number(entries.len()) + 1, last };
        keeper.fill(conversation, &Fill { token, at, span, entries }).await
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

    async fn read_store(&self, conversation: ConversationId, asked: Wanted) -> Loaded<Recent> {
        let last = self.end(conversation).await?;
        let span = Span { first: (last - number(self.limits.messages) + 1).max(1), last };
        let mut messages = Vec::new();
        let asked = asked.of(span);
        for (first, last) in document_parts(asked.first, asked.last) {
            messages.extend(self.store.messages(conversation, first, last).await?);
        }
        Ok(Recent { span, messages })
    }

    async fn end(&self, conversation: ConversationId) -> Loaded<Seq> {
        let ends = self.store.ends(&[conversation]).await?;
        ends.first().map(|end| end.seq).ok_or(StoreError::Overloaded)
    }
}

impl Wanted {
    /// Those of these numbers that are asked for.
    fn of(self, span: Span) -> Span {
        let Span { first, last } = self.span.overlap(span);
        Span { first: first.max(last.saturating_sub(number(self.most)).saturating_add(1)), last }
    }

    /// The last of the messages that were found.
    fn last_of(self, mut found: Vec<Message>) -> Vec<Message> {
        found.drain(..found.len().saturating_sub(self.most));
        found
    }
}

impl Recent {
    /// The same, without the messages that were not asked for.
    fn within(mut self, asked: Wanted) -> Self {
        let span = asked.span;
        self.messages.retain(|message| (span.first..=span.last).contains(&message.seq));
        Self { messages: asked.last_of(self.messages), ..self }
    }
}

/// The messages of these numbers; `None`: one cannot be read.
fn decoded(entries: &[Bytes], span: Span) -> Option<Vec<Message>> {
    (span.first..).zip(entries).map(|(seq, entry)| entry::decode(entry, seq)).collect()
}

/// The numbers of messages that are in a row.
fn span_of(messages: &[Message]) -> Span {
    match (messages.first(), messages.last()) {
        (Some(first), Some(last)) => Span { first: first.seq, last: last.seq },
        _ => Span { first: 1, last: 0 },
    }
}
