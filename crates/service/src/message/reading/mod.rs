//! Reads messages: by number, backwards, and by time.

use futures::{StreamExt as _, stream};
use kith_delivery::{RequestedMessages, Span};
use kith_store::{ConversationId, Message, Seq, Timestamp, UserId, document_of, document_parts};

use super::{
    Messages, ReadBounds,
    logs::{self, Logs},
    range::{ReadRange, ReadableLog, store_error},
    reaction::ReactionCounts,
};
use crate::error::Error;

/// The most messages on a page.
pub(super) const PAGE_MAX: usize = 1_000;
/// The most numbers in one PullBySeqs.
pub(super) const SEQS_MAX: usize = 100;
/// The most bytes on a page with more than one message.
const PAGE_BYTES: usize = 1 << 20;
/// Document parts that are read at the same time: the needed part, and the next.
const READ_AT_ONCE: usize = 2;

/// A read by rising number.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForwardRead {
    pub(super) conversation: ConversationId,
    /// 0: from the first.
    pub(super) from: Seq,
    /// 0: up to the last.
    pub(super) to: Seq,
    pub(super) limit: usize,
    /// See [`Messages::readable`].
    pub(super) at_least: Seq,
}

/// A read by falling number.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackwardRead {
    pub(super) conversation: ConversationId,
    /// Exclusive; 0: from the end.
    pub(super) before: Seq,
    pub(super) limit: usize,
    /// See [`Messages::readable`].
    pub(super) at_least: Seq,
}

/// A part of a conversation's messages.
#[derive(Debug)]
pub(super) struct MessagePage {
    pub(super) messages: Vec<Message>,
    /// The reader's range.
    pub(super) range: ReadRange,
    /// Whether others follow.
    pub(super) more: bool,
}

/// A read's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageOrder {
    Rising,
    Falling,
}

/// A requested page.
#[derive(Clone, Copy, Debug)]
enum PageRequest {
    Forward(ForwardRead),
    Backward(BackwardRead),
}

/// The log that is read.
#[derive(Clone, Copy, Debug)]
struct LogSource<'a> {
    logs: &'a Logs,
    conversation: ConversationId,
    /// The range that the reader may read.
    range: ReadRange,
}

/// One part of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PagePart {
    /// Messages that are known already.
    Recent(Vec<Message>),
    /// The numbers in one document.
    Stored(Span),
}

/// The messages that were read so far.
#[derive(Debug, Default)]
struct PageContent {
    messages: Vec<Message>,
    bytes: usize,
}

impl Messages {
    /// Returns messages by rising number.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn pull(&self, reader: Option<UserId>, read: ForwardRead) -> Result<MessagePage, Error> {
        self.page(reader, read.conversation, read.at_least, PageRequest::Forward(read)).await
    }

    /// Returns messages by falling number.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn history(
        &self,
        reader: Option<UserId>,
        read: BackwardRead,
    ) -> Result<MessagePage, Error> {
        self.page(reader, read.conversation, read.at_least, PageRequest::Backward(read)).await
    }

    /// Returns the messages with these numbers, by rising number.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn pull_by_seqs(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        mut seqs: Vec<Seq>,
        at_least: Seq,
    ) -> Result<MessagePage, Error> {
        seqs.sort_unstable();
        seqs.dedup();
        let asked =
            Span { first: seqs.first().copied().unwrap_or(1), last: seqs.last().copied().unwrap_or(0) };
        let ReadableLog { range, recent } =
            self.readable(reader, conversation, at_least, |_| asked.into()).await?;
        seqs.retain(|seq| range.contains(*seq));
        let of_one = seqs.chunk_by(|one, next| document_of(*one) == document_of(*next));
        let spans = of_one.filter_map(|seqs| Some(Span { first: *seqs.first()?, last: *seqs.last()? }));
        let parts = spans.flat_map(|span| parts(span, &recent)).collect();
        let mut found = PageContent::default();
        let is_asked = |message: &Message| seqs.binary_search(&message.seq).is_ok();
        let log = LogSource { logs: &self.logs, conversation, range };
        let more = read(log, parts, PageOrder::Rising, is_asked, &mut found).await?;
        Ok(MessagePage { messages: found.messages, range, more })
    }

    /// Returns the smallest number whose message was sent at `time` or later; the number after the highest if
    /// there is none.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn seq_at(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        time: Timestamp,
        at_least: Seq,
    ) -> Result<Seq, Error> {
        let range = self.readable(reader, conversation, at_least, |_| logs::NONE.into()).await?.range;
        let found = self.logs.store.seq_at(conversation, time).await.map_err(store_error)?;
        Ok(found.max(range.min).min(range.max + 1))
    }

    async fn page(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        at_least: Seq,
        asked: PageRequest,
    ) -> Result<MessagePage, Error> {
        let wanted = |bounds: ReadBounds| asked.wanted_of_last(bounds.with(Seq::MAX));
        let ReadableLog { range, recent } = self.readable(reader, conversation, at_least, wanted).await?;
        let (first, last, others) = asked.within(range);
        let order = asked.order();
        let parts = ordered(parts(Span { first, last }, &recent), order);
        let mut found = PageContent::default();
        let log = LogSource { logs: &self.logs, conversation, range };
        let is_cut = read(log, parts, order, |_| true, &mut found).await?;
        Ok(MessagePage { messages: found.messages, range, more: is_cut || others })
    }
}

/// Reads parts, one part ahead, until the page is full. Returns whether its size was the reason.
async fn read(
    log: LogSource<'_>,
    parts: Vec<PagePart>,
    order: PageOrder,
    is_asked: impl Fn(&Message) -> bool,
    found: &mut PageContent,
) -> Result<bool, Error> {
    let reads = parts.into_iter().map(async |part| match part {
        PagePart::Recent(messages) => Ok(messages),
        PagePart::Stored(span) => log.logs.stored(log.conversation, span, log.range.max).await,
    });
    let mut reads = stream::iter(reads).buffered(READ_AT_ONCE);
    while let Some(part) = reads.next().await {
        let mut part = ordered(part?, order);
        part.retain(&is_asked);
        part.iter_mut().for_each(|message| log.range.show(message));
        if !found.admit(part) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn ordered<T>(mut rising: Vec<T>, order: PageOrder) -> Vec<T> {
    if order == PageOrder::Falling {
        rising.reverse();
    }
    rising
}

impl ForwardRead {
    /// First and last number of the page within what may be read, and whether others follow.
    fn within(self, range: ReadRange) -> (Seq, Seq, bool) {
        let to = if self.to == 0 { range.max } else { self.to.min(range.max) };
        let first = self.from.max(range.min);
        let last = to.min(first.saturating_add(as_seq(self.limit) - 1));
        (first, last, last < to)
    }
}

impl BackwardRead {
    /// Narrows the page like [`ForwardRead::within`].
    fn within(self, range: ReadRange) -> (Seq, Seq, bool) {
        let last = if self.before == 0 { range.max } else { range.max.min(self.before - 1) };
        let first = range.min.max(last - as_seq(self.limit) + 1);
        (first, last, range.min < first)
    }
}

impl PageRequest {
    const fn order(self) -> PageOrder {
        match self {
            Self::Forward(_) => PageOrder::Rising,
            Self::Backward(_) => PageOrder::Falling,
        }
    }

    /// First and last number of the page within what may be read, and whether others follow.
    fn within(self, range: ReadRange) -> (Seq, Seq, bool) {
        match self {
            Self::Forward(read) => read.within(range),
            Self::Backward(read) => read.within(range),
        }
    }

    /// The largest part among the last messages, if the end may be anywhere in this range.
    fn wanted_of_last(self, range: ReadRange) -> RequestedMessages {
        if let Self::Backward(BackwardRead { before: 0, limit, .. }) = self {
            return RequestedMessages { span: Span { first: range.min, last: range.max }, most: limit };
        }
        let (first, last, _) = self.within(range);
        Span { first, last }.into()
    }
}

impl MessagePage {
    /// Cuts the page to messages that have, with these counts, at most this many bytes, but keeps at least
    /// one message.
    pub(super) fn fit_into(
        mut self,
        bytes: usize,
        conversation: ConversationId,
        counts: &ReactionCounts,
    ) -> Self {
        let mut taken = 0;
        let fits = |message: &&Message| {
            taken += message.weight() + counts.bytes(conversation, message.seq);
            taken <= bytes
        };
        let kept = self.messages.iter().take_while(fits).count().max(1);
        self.more |= kept < self.messages.len();
        self.messages.truncate(kept);
        self
    }

    /// Returns an empty page.
    pub(super) const fn empty() -> Self {
        Self { messages: Vec::new(), range: ReadRange { min: 1, max: 0, closed_at: None }, more: false }
    }
}

impl PageContent {
    /// Adds the first of these messages for which the page has room. Returns whether these are all.
    fn admit(&mut self, mut part: Vec<Message>) -> bool {
        let is_new = self.messages.is_empty();
        let fits = |(at, message): &(usize, &Message)| {
            self.bytes += message.weight();
            self.bytes <= PAGE_BYTES || (is_new && *at == 0)
        };
        let (fitting, all) = (part.iter().enumerate().take_while(fits).count(), part.len());
        part.truncate(fitting);
        if is_new {
            self.messages = part;
        } else {
            self.messages.append(&mut part);
        }
        fitting == all
    }
}

/// The parts for these numbers, by rising number. `recent`: messages that are known.
fn parts(asked: Span, recent: &[Message]) -> Vec<PagePart> {
    let known = recent
        .first()
        .zip(recent.last())
        .map_or(logs::NONE, |(first, last)| Span { first: first.seq, last: last.seq });
    let known = asked.overlap(known);
    if known.count() == 0 {
        return stored_parts(asked).collect();
    }
    let messages = recent.iter().filter(|message| (known.first..=known.last).contains(&message.seq));
    let below = stored_parts(Span { first: asked.first, last: known.first - 1 });
    let above = stored_parts(Span { first: known.last + 1, last: asked.last });
    below.chain([PagePart::Recent(messages.cloned().collect())]).chain(above).collect()
}

/// The document parts for these numbers, by rising number.
fn stored_parts(asked: Span) -> impl Iterator<Item = PagePart> {
    document_parts(asked.first, asked.last).map(|(first, last)| PagePart::Stored(Span { first, last }))
}

fn as_seq(count: usize) -> Seq {
    Seq::try_from(count).unwrap_or(Seq::MAX)
}

#[cfg(test)]
mod tests;
