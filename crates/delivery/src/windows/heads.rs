//! Reads of many windows, for lists and unread counts. Where there is no window they make a window of
//! headers.

use std::sync::Arc;

use bytes::Bytes;
use kith_store::{BATCH_MAX, ConversationId, DOCUMENT, HEADS_AT_ONCE, LogHead, Seq, StoreError};

use super::{Loaded, WindowParts, Windows, number};
use crate::{
    Confirm, Fill, HeadLookup, LeaseToken, ServerTime, Span, WindowKeeper, WindowSnapshot, entry,
    metrics::ReadResult,
};

/// The request for one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadOf {
    /// The conversation.
    pub conversation: ConversationId,
    /// Headers above this number are read.
    pub after: Seq,
    /// A number that the caller knows to exist; 0: none.
    pub at_least: Seq,
}

/// The answer of a window for one conversation.
enum HeadAnswer {
    Answer(LogHead),
    /// A window that must be compared with the store first.
    Old(WindowSnapshot, LogHead),
    /// The store must be read. With a lease a window of headers may be made of what is read.
    Store(ReadResult, Option<ServerTime>),
}

/// A head to be read from the store, with its index and the lease, if there is one.
struct MissingHead {
    index: usize,
    asked: HeadOf,
    lease: Option<ServerTime>,
}

impl Windows {
    /// Reads the ends of up to [`BATCH_MAX`] conversations, and the headers of those of their last
    /// [`DOCUMENT`] messages whose numbers are above the given number, in the order of `asked`. They come
    /// from windows, else from the store.
    ///
    /// As fresh as [`Windows::read`]. Costs one round trip to Redis. Those without a window cost reads of the
    /// store, and a second round trip that makes windows of their headers. If a window has not been compared
    /// with the store for [`WindowLimits::checked`](crate::WindowLimits::checked), one read of all their ends
    /// and a second round trip.
    ///
    /// # Errors
    /// If the store is needed and does not answer; [`StoreError::Overloaded`] for more conversations, or if
    /// too many reads wait for the store.
    pub async fn heads(&self, asked: &[HeadOf]) -> Result<Vec<LogHead>, StoreError> {
        if asked.len() > BATCH_MAX {
            return Err(StoreError::Overloaded);
        }
        self.0.heads(asked).await
    }
}

impl WindowParts {
    async fn heads(self: &Arc<Self>, asked: &[HeadOf]) -> Loaded<Vec<LogHead>> {
        let token = LeaseToken(rand::random());
        let mut heads: Vec<Option<LogHead>> = vec![None; asked.len()];
        let mut leases = vec![None; asked.len()];
        if let Some(keeper) = &self.keeper {
            let mut old = Vec::new();
            for (index, answer) in self.head_answers(keeper, asked, token).await.into_iter().enumerate() {
                match answer {
                    HeadAnswer::Answer(head) => heads[index] = Some(head),
                    HeadAnswer::Old(window, head) => {
                        old.push((index, asked[index].conversation, window, head))
                    }
                    HeadAnswer::Store(_, lease) => leases[index] = lease,
                }
            }
            let compared = self.compared(keeper, old).await?;
            compared.into_iter().for_each(|(index, head)| heads[index] = Some(head));
        }
        let missing = (0..asked.len()).filter(|index| heads[*index].is_none());
        let missing = missing.map(|index| MissingHead { index, asked: asked[index], lease: leases[index] });
        let missing: Vec<MissingHead> = missing.collect();
        for (index, head) in self.stored_heads(&missing, token).await? {
            heads[index] = Some(head);
        }
        Ok(heads.into_iter().map(Option::unwrap_or_default).collect())
    }

    async fn head_answers(
        &self,
        keeper: &Arc<dyn WindowKeeper>,
        asked: &[HeadOf],
        token: LeaseToken,
    ) -> Vec<HeadAnswer> {
        let logs: Vec<_> = asked.iter().map(|asked| (asked.conversation, asked.after)).collect();
        let answers = keeper.heads(&logs, token).await.into_iter().zip(asked).map(|(answer, asked)| {
            let answer = answer.map_or(HeadAnswer::Store(ReadResult::Unavailable, None), |answer| {
                self.head_answer(answer, asked)
            });
            self.count(answer.result());
            answer
        });
        answers.collect()
    }

    fn head_answer(&self, answer: HeadLookup, asked: &HeadOf) -> HeadAnswer {
        match answer {
            HeadLookup::Hit { window, last, headers } => {
                match head_of(window.span, last, &headers, asked.after) {
                    Some(head) if self.is_fresh(window, asked.at_least) => HeadAnswer::Answer(head),
                    Some(head) => HeadAnswer::Old(window, head),
                    None => HeadAnswer::Store(ReadResult::Miss, None),
                }
            }
            HeadLookup::Miss { lease } => HeadAnswer::Store(ReadResult::Miss, lease),
            HeadLookup::Held => HeadAnswer::Store(ReadResult::Held, None),
        }
    }

    /// The heads that are at the end of their logs, each with its index.
    async fn compared(
        &self,
        keeper: &Arc<dyn WindowKeeper>,
        old: Vec<(usize, ConversationId, WindowSnapshot, LogHead)>,
    ) -> Loaded<Vec<(usize, LogHead)>> {
        if old.is_empty() {
            return Ok(Vec::new());
        }
        let logs: Vec<_> = old.iter().map(|(_, conversation, ..)| *conversation).collect();
        let ends = self.load(self.store.ends(&logs)).await?;
        let known = old.iter().zip(&ends).map(|((_, conversation, window, _), end)| Confirm {
            conversation: *conversation,
            at: window.at,
            end: end.seq,
        });
        // If this fails, the next reader compares the windows again.
        keeper.confirm(&known.collect::<Vec<_>>()).await;
        let still = old.into_iter().zip(ends).filter(|((_, _, window, _), end)| end.seq <= window.span.last);
        Ok(still.map(|((index, .., head), _)| (index, head)).collect())
    }

    /// Heads in the store, each with its index. Makes windows of headers where there is a lease.
    async fn stored_heads(
        &self,
        missing: &[MissingHead],
        token: LeaseToken,
    ) -> Loaded<Vec<(usize, LogHead)>> {
        let mut heads = Vec::with_capacity(missing.len());
        for some in missing.chunks(HEADS_AT_ONCE) {
            // A window has all headers, for readers that have read less.
            let above = |missing: &MissingHead| if missing.lease.is_some() { 0 } else { missing.asked.after };
            let logs: Vec<_> =
                some.iter().map(|missing| (missing.asked.conversation, above(missing))).collect();
            let read = self.load(self.store.heads(&logs)).await?;
            self.fill_headers(some, &read, token).await;
            heads.extend(some.iter().zip(read).map(|(missing, mut head)| {
                head.headers.retain(|header| header.seq > missing.asked.after);
                (missing.index, head)
            }));
        }
        Ok(heads)
    }

    /// What is not filled is read from the store again by the next list.
    async fn fill_headers(&self, missing: &[MissingHead], read: &[LogHead], token: LeaseToken) {
        let fills = missing.iter().zip(read).filter_map(|(missing, head)| {
            let (at, conversation) = (missing.lease?, missing.asked.conversation);
            let (span, entries) = self.entries_of(head)?;
            Some(Fill { conversation, token, at, span, entries, has_headers: true })
        });
        let fills: Vec<Fill> = fills.collect();
        if let Some(keeper) = self.keeper.as_ref().filter(|_| !fills.is_empty()) {
            keeper.fill(&fills).await;
        }
    }

    /// The entries of a window of headers; `None`: the last message has no room in a window.
    fn entries_of(&self, head: &LogHead) -> Option<(Span, Vec<Bytes>)> {
        let Some(last) = &head.last else { return Some((Span { first: 1, last: 0 }, Vec::new())) };
        let (_, before) = head.headers.split_last().filter(|(header, _)| header.seq == last.seq)?;
        let before = &before[before.len().saturating_sub(self.limits.messages - 1)..];
        let whole = entry::encode(last).filter(|entry| entry.len() <= self.limits.bytes / 2)?;
        let headers = Some(entry::encode_headers(before)?).filter(|headers| !headers.is_empty());
        let entries = headers.into_iter().chain([whole]).collect();
        Some((Span { first: last.seq - number(before.len()), last: last.seq }, entries))
    }
}

impl HeadAnswer {
    const fn result(&self) -> ReadResult {
        match self {
            Self::Answer(_) => ReadResult::Hit,
            Self::Old(..) => ReadResult::Old,
            Self::Store(result, _) => *result,
        }
    }
}

/// The head that a window has; `None`: large messages left no room for all of it, or an entry cannot be read.
fn head_of(span: Span, last: Option<Bytes>, headers: &[u8], after: Seq) -> Option<LogHead> {
    let wanted = after.saturating_add(1).max(span.last - DOCUMENT + 1);
    if span.first > wanted.max(1) {
        return None;
    }
    let last = match last {
        Some(last) => Some(entry::decode(&last, span.last)?),
        None => None,
    };
    let above = Span { first: after.saturating_add(1), last: span.last };
    Some(LogHead { last, headers: entry::decode_headers(headers, above.overlap(span))? })
}
