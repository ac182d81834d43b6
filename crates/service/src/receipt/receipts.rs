//! The receipts that calls read.

use std::{slice, sync::Arc};

use kith_store::{ConversationId, Edge, Receipt, ReceiptState, Seat, SentMessage, Seq, UserId};
use tokio::time::Instant;

use super::{
    ReadMarks, ReceiptsConfig,
    inputs::{self, ReceiptInputs},
    marks::MarksByOrdinal,
    rights::ReceiptCaller,
    seat_copies::SeatCopies,
    sent_copies::SentCopies,
};
use crate::{
    error::Error,
    group::member::GroupSeats,
    message::{Messages, SentMessages},
    metric::{RECEIPT_LOADS, count_from_zero},
    rpc::answer_size::left_out,
};

/// A deployment's receipts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Receipts(pub(super) Arc<ReceiptsInner>);

/// The parts that [`Receipts`] uses.
#[derive(Debug)]
pub(super) struct ReceiptsInner {
    pub(super) messages: Messages,
    sent: SentCopies,
    seats: SeatCopies,
    marks: ReadMarks,
    pub(super) config: ReceiptsConfig,
}

/// Users whose marks are read at once for a page.
const PART: usize = 1_000;
/// Most such parts that are read for one page.
const PARTS_OF_PAGE: usize = 20;

/// Messages, and the users in their conversation.
#[derive(Debug)]
pub(super) struct VisibleMessages {
    /// The messages, or the reasons why they have no receipt for the caller.
    pub(super) messages: Vec<Result<SentMessage, Error>>,
    seats: Arc<GroupSeats>,
}

/// The page of users to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrdinalPage {
    /// The first ordinal.
    pub(super) from: u32,
    /// The most users on it.
    pub(super) size: usize,
}

/// A page of users.
#[derive(Clone, Debug)]
pub(super) struct ReceiptUsers<T> {
    pub(super) users: Vec<T>,
    /// The next user's ordinal, if others follow.
    pub(super) next: Option<u32>,
}

impl Receipts {
    /// Creates it over these messages. `marks`: the copies that are dropped when marks are made, see
    /// [`super::ChangedReceipts`].
    #[must_use]
    pub fn new(messages: Messages, marks: ReadMarks, config: ReceiptsConfig) -> Self {
        count_from_zero(RECEIPT_LOADS, &["members", "changes", "marks"]);
        let seats = SeatCopies::new(messages.dependencies.members.clone(), config.kept);
        Self(Arc::new(ReceiptsInner { messages, sent: SentCopies::new(), seats, marks, config }))
    }

    /// Reads the data from which some messages' receipts are computed. `user`: the caller; `None`: a service.
    /// `is_fresh`: with every mark that was acknowledged before. If the messages take too many steps, the
    /// last messages are left out.
    ///
    /// # Errors
    /// NOT_FOUND if the user can read nothing in the conversation, or errors of the store. A single message
    /// has NOT_FOUND, OUT_OF_RANGE, FAILED_PRECONDITION, PERMISSION_DENIED.
    pub(super) async fn inputs(
        &self,
        user: Option<UserId>,
        conversation: ConversationId,
        seqs: &[Seq],
        is_fresh: bool,
    ) -> Result<ReceiptInputs, Error> {
        let visible = self.visible(user, conversation, seqs).await?;
        self.with_marks(user, conversation, visible, is_fresh).await
    }

    /// The messages with their readers' marks.
    ///
    /// # Errors
    /// The store's errors.
    pub(super) async fn with_marks(
        &self,
        user: Option<UserId>,
        conversation: ConversationId,
        VisibleMessages { messages, seats }: VisibleMessages,
        is_fresh: bool,
    ) -> Result<ReceiptInputs, Error> {
        let seqs = inputs::numbers(&messages);
        let readers = inputs::readers(&seats, 0..seats.seats.len(), &seqs);
        let marks = self.marks(user, conversation, readers, is_fresh).await?;
        Ok(ReceiptInputs { messages, seats, marks })
    }

    /// The messages whose receipts the caller may see, and the conversation's users.
    pub(super) async fn visible(
        &self,
        user: Option<UserId>,
        conversation: ConversationId,
        seqs: &[Seq],
    ) -> Result<VisibleMessages, Error> {
        // The messages are read before the seats: a member who joins later does not read these messages.
        let sent = self.sent(user, conversation, seqs).await?;
        let (caller, seats) =
            tokio::try_join!(self.caller(user, conversation), self.0.seats.of(conversation))?;
        let most = inputs::most(&seats);
        let message = |(at, seq): (usize, &Seq)| {
            if at < most { visible_message(&sent, *seq, caller, &seats) } else { Err(left_out()) }
        };
        let messages = seqs.iter().enumerate().map(message).collect();
        Ok(VisibleMessages { messages, seats })
    }

    /// Returns a page of the users with this part in a message's receipt, from this ordinal on. It has fewer
    /// users than asked for if they are rare: at most [`PARTS_OF_PAGE`] conversation parts are read.
    ///
    /// # Errors
    /// The errors of [`Self::inputs`].
    pub(super) async fn list(
        &self,
        user: Option<UserId>,
        message: (ConversationId, Seq),
        state: ReceiptState,
        asked: OrdinalPage,
        is_fresh: bool,
    ) -> Result<ReceiptUsers<UserId>, Error> {
        let (conversation, seq) = message;
        let VisibleMessages { messages, seats } = self.visible(user, conversation, &[seq]).await?;
        let message = messages.into_iter().next().unwrap_or_else(|| Err(Error::internal()))?;
        let (mut users, mut from) = (Vec::new(), usize::try_from(asked.from).unwrap_or(usize::MAX));
        for _ in 0..PARTS_OF_PAGE {
            let part = from.min(seats.seats.len())..from.saturating_add(PART).min(seats.seats.len());
            let readers = inputs::readers(&seats, part.clone(), slice::from_ref(&seq));
            let marks = self.marks(user, conversation, readers, is_fresh).await?;
            let (has_read, first) = (marks.have_read(seq), part.start);
            let receipt = Receipt::of(&seats.seats[part.clone()], message, |at| has_read(first + at));
            for ordinal in receipt.ordinals(state, 0) {
                let at = first + usize::try_from(ordinal).unwrap_or(usize::MAX);
                if users.len() == asked.size {
                    return Ok(ReceiptUsers { users, next: u32::try_from(at).ok() });
                }
                users.extend(seats.seats.get(at).and_then(Option::as_ref).map(|seat| seat.user));
            }
            from = part.end;
            if from == seats.seats.len() {
                return Ok(ReceiptUsers { users, next: None });
            }
        }
        Ok(ReceiptUsers { users, next: u32::try_from(from).ok() })
    }

    /// Returns a page of a conversation's present and former users, from this ordinal on, each with its
    /// ordinal.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn ordinals(
        &self,
        user: Option<UserId>,
        conversation: ConversationId,
        asked: OrdinalPage,
    ) -> Result<ReceiptUsers<(u32, Seat)>, Error> {
        let bounds = self.0.messages.bounds(user, &[conversation]).await?;
        let bounds = bounds.into_iter().next().unwrap_or_else(|| Err(Error::internal()))?;
        if bounds.joined().is_none() {
            return Err(Error::not_allowed("only members of the group and services may do this"));
        }
        let seats = self.0.seats.of(conversation).await?;
        let skipped = usize::try_from(asked.from).unwrap_or(usize::MAX);
        let seats = (asked.from..).zip(seats.seats.iter().skip(skipped));
        Ok(page(seats.filter_map(|(at, seat)| Some((at, (at, seat.clone()?)))), asked.size))
    }

    /// The senders of the messages that the user can read. The log is not read for recently read messages.
    async fn sent(
        &self,
        user: Option<UserId>,
        conversation: ConversationId,
        seqs: &[Seq],
    ) -> Result<SentMessages, Error> {
        let messages = &self.0.messages;
        if let Some(known) = self.0.sent.all(conversation, seqs) {
            return messages.known_messages(user, conversation, known).await;
        }
        let since = Instant::now();
        // Boxed: otherwise every call is as large as this future.
        let sent = Box::pin(messages.sent_messages(user, conversation, seqs.to_vec())).await?;
        self.0.sent.note(conversation, sent.messages(), since);
        Ok(sent)
    }

    /// These readers' read marks, each with its ordinal.
    async fn marks(
        &self,
        user: Option<UserId>,
        conversation: ConversationId,
        readers: impl IntoIterator<Item = (usize, UserId)>,
        is_fresh: bool,
    ) -> Result<Arc<MarksByOrdinal>, Error> {
        if user.is_some() && self.is_blocked(conversation).await? {
            return Ok(Arc::default());
        }
        self.0.marks.of(conversation, readers, is_fresh).await
    }

    /// Whether one user in a direct conversation has blocked the other. Read marks are not shown then.
    async fn is_blocked(&self, conversation: ConversationId) -> Result<bool, Error> {
        let ConversationId::Direct(one, other) = conversation else { return Ok(false) };
        if one == other {
            return Ok(false);
        }
        let blocks = &self.0.messages.dependencies.blocks;
        Box::pin(blocks.is_either_blocked(Edge { from: one, to: other })).await
    }
}

/// A message, if the caller may see its receipt.
fn visible_message(
    sent: &SentMessages,
    seq: Seq,
    caller: ReceiptCaller,
    seats: &GroupSeats,
) -> Result<SentMessage, Error> {
    let message = sent.find(seq)?;
    caller.may_see(message, seats)?;
    Ok(message)
}

/// The first users, and the next user's ordinal.
fn page<T>(mut all: impl Iterator<Item = (u32, T)>, size: usize) -> ReceiptUsers<T> {
    let users = all.by_ref().take(size).map(|(_, item)| item).collect();
    ReceiptUsers { users, next: all.next().map(|(ordinal, _)| ordinal) }
}
