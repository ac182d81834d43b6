//! Reads of messages: by number, backwards, and by time.

use futures::{StreamExt as _, stream};
use kith_store::{ConversationId, DOCUMENT, Message, MessageStore, Seq, Timestamp, UserId, document_of};

use super::{
    Messages,
    range::{Range, store_error},
};
use crate::error::Error;

/// Most messages of a page.
pub(super) const PAGE_MAX: usize = 1_000;
/// Most numbers of one PullBySeqs.
pub(super) const SEQS_MAX: usize = 100;
/// Most bytes of a page with more than one message.
const PAGE_BYTES: usize = 1 << 20;
/// Parts of documents that are read at one time: the one that is needed, and the next.
const READ_AT_ONCE: usize = 2;

/// What is read by rising number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pull {
    pub(super) conversation: ConversationId,
    /// 0: from the first.
    pub(super) from: Seq,
    /// 0: up to the last.
    pub(super) to: Seq,
    pub(super) limit: usize,
    /// See [`Messages::range`].
    pub(super) at_least: Seq,
}

/// What is read by falling number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back {
    pub(super) conversation: ConversationId,
    /// Exclusive; 0: from the end.
    pub(super) before: Seq,
    pub(super) limit: usize,
    /// See [`Messages::range`].
    pub(super) at_least: Seq,
}

/// A part of the messages of a conversation.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) messages: Vec<Message>,
    /// What the reader may read.
    pub(super) range: Range,
    /// Whether others follow.
    pub(super) more: bool,
}

/// In which order messages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Rising,
    Falling,
}

/// What was read so far.
#[derive(Debug)]
struct Found {
    messages: Vec<Message>,
    bytes: usize,
    since: Timestamp,
    /// Whether a message was met that is not the reader's.
    met_predecessor: bool,
}

impl Messages {
    /// Returns messages by rising number.
    ///
    /// # Errors
    /// NOT_FOUND, or what a failing store makes.
    pub(super) async fn pull(&self, reader: Option<UserId>, asked: Pull) -> Result<Page, Error> {
        let range = self.range(reader, asked.conversation, asked.at_least).await?;
        self.page(asked.conversation, range, Order::Rising, |range| asked.within(range)).await
    }

    /// Returns messages by falling number.
    ///
    /// # Errors
    /// NOT_FOUND, or what a failing store makes.
    pub(super) async fn history(&self, reader: Option<UserId>, asked: Back) -> Result<Page, Error> {
        let range = self.range(reader, asked.conversation, asked.at_least).await?;
        self.page(asked.conversation, range, Order::Falling, |range| asked.within(range)).await
    }

    /// Returns the messages with these numbers, by rising number.
    ///
    /// # Errors
    /// NOT_FOUND, or what a failing store makes.
    pub(super) async fn pull_by_seqs(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        mut seqs: Vec<Seq>,
    ) -> Result<Page, Error> {
        let range = self.range(reader, conversation, 0).await?;
        seqs.retain(|seq| range.contains(*seq));
        seqs.sort_unstable();
        seqs.dedup();
        let of_one = seqs.chunk_by(|one, next| document_of(*one) == document_of(*next));
        let parts = of_one.filter_map(|seqs| Some((*seqs.first()?, *seqs.last()?))).collect();
        let mut found = Found::new(range);
        let is_asked = |message: &Message| seqs.binary_search(&message.seq).is_ok();
        let more = read(&*self.store, conversation, parts, Order::Rising, is_asked, &mut found).await?;
        Ok(Page { messages: found.messages, range, more })
    }

    /// Returns the smallest number of a message that was sent at `time` or later; the number after the highest one if there is
    /// none.
    ///
    /// # Errors
    /// NOT_FOUND, or what a failing store makes.
    pub(super) async fn seq_at(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        time: Timestamp,
    ) -> Result<Seq, Error> {
        let range = self.range(reader, conversation, 0).await?;
        let found = self.store.seq_at(conversation, time.max(range.since)).await.map_err(store_error)?;
        Ok(found.max(range.min).min(range.max + 1))
    }

    /// A page of what `within` says of the range of a reader: the first and the last number, and whether others follow.
    async fn page(
        &self,
        conversation: ConversationId,
        range: Range,
        order: Order,
        within: impl Fn(Range) -> (Seq, Seq, bool),
    ) -> Result<Page, Error> {
        let (page, met_predecessor) = self.page_within(conversation, range, order, within(range)).await?;
        if !met_predecessor {
            return Ok(page);
        }
        let range = self.without_predecessor(conversation, range).await?;
        Ok(self.page_within(conversation, range, order, within(range)).await?.0)
    }

    async fn page_within(
        &self,
        conversation: ConversationId,
        range: Range,
        order: Order,
        (first, last, others): (Seq, Seq, bool),
    ) -> Result<(Page, bool), Error> {
        let mut found = Found::new(range);
        let parts = ordered(parts(first, last), order);
        let is_cut = read(&*self.store, conversation, parts, order, |_| true, &mut found).await?;
        let page = Page { messages: found.messages, range, more: is_cut || others };
        Ok((page, found.met_predecessor))
    }
}

/// Reads parts of documents, one of them ahead, until enough was found. Returns whether that was because of its size.
async fn read(
    store: &dyn MessageStore,
    conversation: ConversationId,
    parts: Vec<(Seq, Seq)>,
    order: Order,
    is_asked: impl Fn(&Message) -> bool,
    found: &mut Found,
) -> Result<bool, Error> {
    let reads = parts.into_iter().map(|(first, last)| store.messages(conversation, first, last));
    let mut reads = stream::iter(reads).buffered(READ_AT_ONCE);
    while let Some(part) = reads.next().await {
        let part = ordered(part.map_err(store_error)?, order);
        for message in part.into_iter().filter(&is_asked) {
            if !found.takes(message) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn ordered<T>(mut rising: Vec<T>, order: Order) -> Vec<T> {
    if order == Order::Falling {
        rising.reverse();
    }
    rising
}

impl Pull {
    /// First and last number of the page within what may be read, and whether others follow.
    fn within(self, range: Range) -> (Seq, Seq, bool) {
        let to = if self.to == 0 { range.max } else { self.to.min(range.max) };
        let first = self.from.max(range.min);
        let last = to.min(first.saturating_add(as_seq(self.limit) - 1));
        (first, last, last < to)
    }
}

impl Back {
    /// As [`Pull::within`].
    fn within(self, range: Range) -> (Seq, Seq, bool) {
        let last = if self.before == 0 { range.max } else { range.max.min(self.before - 1) };
        let first = range.min.max(last - as_seq(self.limit) + 1);
        (first, last, range.min < first)
    }
}

impl Found {
    const fn new(range: Range) -> Self {
        Self { messages: Vec::new(), bytes: 0, since: range.since, met_predecessor: false }
    }

    /// Whether the page has room for the message, which is in it then, unless it is not the reader's.
    fn takes(&mut self, message: Message) -> bool {
        if message.sent < self.since {
            self.met_predecessor = true;
            return true;
        }
        self.bytes += message.weight();
        if self.bytes > PAGE_BYTES && !self.messages.is_empty() {
            return false;
        }
        self.messages.push(message);
        true
    }
}

/// The parts of documents from one number to another, by rising number; none if `last` is below `first`.
fn parts(first: Seq, last: Seq) -> Vec<(Seq, Seq)> {
    if last < first {
        return Vec::new();
    }
    let part = |document: i64| {
        let begin = document * DOCUMENT + 1;
        (first.max(begin), last.min(begin + DOCUMENT - 1))
    };
    (document_of(first)..=document_of(last)).map(part).collect()
}

fn as_seq(count: usize) -> Seq {
    Seq::try_from(count).unwrap_or(Seq::MAX)
}

#[cfg(test)]
mod tests;
