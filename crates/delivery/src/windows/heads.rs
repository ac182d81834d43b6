//! Reads of many windows, for lists and unread counts. They fill nothing.

use std::{fmt, sync::Arc};

use kith_store::{BATCH_MAX, ConversationId, Message, Seq, StoreError};

use super::{Loaded, WindowParts, Windows};
use crate::{Confirm, EntryHeader, HeadLookup, WindowKeeper, WindowSnapshot, entry, metrics::ReadResult};

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

/// The end of a log in its window.
#[derive(Clone, PartialEq, Eq)]
pub struct Head {
    /// The number of the last message; 0: the log is empty.
    pub end: Seq,
    /// The last message; `None`: the log is empty.
    pub last: Option<Message>,
    /// The number of the first message that the window has. Messages below it have no header here.
    pub first: Seq,
    /// Headers of the messages above the number that was asked for, by rising number.
    pub headers: Vec<EntryHeader>,
}

/// The answer of a window for one conversation.
enum HeadAnswer {
    Answer(Head),
    /// A window that must be compared with the store first.
    Old(WindowSnapshot, Head),
    Nothing(ReadResult),
}

impl Windows {
    /// Reads the ends of up to [`BATCH_MAX`] conversations and the headers of their last messages, in the order of `asked`.
    /// `None`: no window can answer; the caller reads those from the store, all at once.
    ///
    /// As fresh as [`Windows::read`]. Fills no window. Costs one round trip to Redis; if one of the windows has not been compared
    /// with the store for [`WindowLimits::checked`](crate::WindowLimits::checked), one read of all their ends and a second round
    /// trip.
    ///
    /// # Errors
    /// If the store is needed and does not answer; [`StoreError::Overloaded`] for more conversations, or if too many
    /// reads wait for the store.
    pub async fn heads(&self, asked: &[HeadOf]) -> Result<Vec<Option<Head>>, StoreError> {
        if asked.len() > BATCH_MAX {
            return Err(StoreError::Overloaded);
        }
        match &self.0.keeper {
            Some(keeper) => self.0.heads_by_window(keeper, asked).await,
            None => Ok(asked.iter().map(|_| None).collect()),
        }
    }
}

impl WindowParts {
    async fn heads_by_window(
        self: &Arc<Self>,
        keeper: &Arc<dyn WindowKeeper>,
        asked: &[HeadOf],
    ) -> Loaded<Vec<Option<Head>>> {
        let logs: Vec<_> = asked.iter().map(|one| (one.conversation, one.after)).collect();
        let mut heads = vec![None; asked.len()];
        let mut old = Vec::new();
        for (index, (one, answer)) in asked.iter().zip(keeper.heads(&logs).await).enumerate() {
            let answer = answer
                .map_or(HeadAnswer::Nothing(ReadResult::Unavailable), |head| self.head_answer(head, one));
            self.count(answer.result());
            match answer {
                HeadAnswer::Answer(head) => heads[index] = Some(head),
                HeadAnswer::Old(window, head) => old.push((index, one.conversation, window, head)),
                HeadAnswer::Nothing(_) => {}
            }
        }
        let compared = self.compared(keeper, old).await?;
        compared.into_iter().for_each(|(index, head)| heads[index] = Some(head));
        Ok(heads)
    }

    fn head_answer(&self, answer: HeadLookup, asked: &HeadOf) -> HeadAnswer {
        match answer {
            HeadLookup::Hit { window, last } => match Head::of(&window, last.as_ref(), asked.after) {
                Some(head) if self.is_fresh(&window, asked.at_least) => HeadAnswer::Answer(head),
                Some(head) => HeadAnswer::Old(window, head),
                // A newer program has written it, or it is damaged.
                None => HeadAnswer::Nothing(ReadResult::Miss),
            },
            HeadLookup::Miss => HeadAnswer::Nothing(ReadResult::Miss),
            HeadLookup::Held => HeadAnswer::Nothing(ReadResult::Held),
        }
    }

    /// The heads that are at the end of their logs, each with its index.
    async fn compared(
        &self,
        keeper: &Arc<dyn WindowKeeper>,
        old: Vec<(usize, ConversationId, WindowSnapshot, Head)>,
    ) -> Loaded<Vec<(usize, Head)>> {
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
        // Unconfirmed, they are compared again by the next reader.
        keeper.confirm(&known.collect::<Vec<_>>()).await;
        let still = old.into_iter().zip(ends).filter(|((.., head), end)| end.seq <= head.end);
        Ok(still.map(|((index, .., head), _)| (index, head)).collect())
    }
}

impl HeadAnswer {
    const fn result(&self) -> ReadResult {
        match self {
            Self::Answer(_) => ReadResult::Hit,
            Self::Old(..) => ReadResult::Old,
            Self::Nothing(read) => *read,
        }
    }
}

impl Head {
    /// `None`: an entry cannot be read.
    fn of(window: &WindowSnapshot, last: Option<&bytes::Bytes>, after: Seq) -> Option<Self> {
        let span = window.span;
        let last = last.map(|last| entry::decode(last, span.last));
        let first = span.first.max(after.saturating_add(1));
        let headers = (first..).zip(&window.entries).map(|(seq, header)| EntryHeader::decode(header, seq));
        let headers = headers.collect::<Option<_>>()?;
        let last = if let Some(last) = last { Some(last?) } else { None };
        Some(Self { end: span.last, last, first: span.first, headers })
    }
}

impl fmt::Debug for Head {
    /// Without the content of the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head").field("end", &self.end).field("headers", &self.headers).finish_non_exhaustive()
    }
}
