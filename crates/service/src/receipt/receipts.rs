//! Receipts as calls ask for them.

use std::sync::Arc;

use kith_store::{ConversationId, Edge, ReceiptState, Seat, SentMessage, Seq, UserId};
use tokio::time::Instant;

use super::{
    ReadMarks, ReceiptsConfig,
    asked::{self, Asked},
    marks::Marks,
    rights::Asker,
    seat_copies::SeatCopies,
    sent_copies::SentCopies,
};
use crate::{
    error::Error,
    group::members::GroupSeats,
    message::{Messages, SentMessages},
    metric::{RECEIPT_LOADS, count_from_zero},
    rpc::answer_size::left_out,
};

/// Who has read the messages of a deployment. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Receipts(pub(super) Arc<Parts>);

/// What [`Receipts`] uses.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) messages: Messages,
    sent: SentCopies,
    seats: SeatCopies,
    marks: ReadMarks,
    pub(super) config: ReceiptsConfig,
}

/// A page of users, and the ordinal of the next one if others follow.
pub(super) type Users<T> = (Vec<T>, Option<u32>);

impl Receipts {
    /// Over these messages. `marks`: what is dropped when marks are made, see [`super::ChangedReceipts`].
    #[must_use]
    pub fn new(messages: Messages, marks: ReadMarks, config: ReceiptsConfig) -> Self {
        count_from_zero(RECEIPT_LOADS, &["members", "changes", "marks"]);
        let seats = SeatCopies::new(messages.correspondents.members.clone(), config.kept);
        Self(Arc::new(Parts { messages, sent: SentCopies::new(), seats, marks, config }))
    }

    /// Reads what the receipts of some messages are computed from. `user`: who asks; `None`: a service. `is_fresh`: with every
    /// mark that was acknowledged before. Of the messages that take too many steps the last ones are left out.
    ///
    /// # Errors
    /// NOT_FOUND if the user can read nothing of the conversation, or those of a failing store. Of one message:
    /// NOT_FOUND, OUT_OF_RANGE, FAILED_PRECONDITION, PERMISSION_DENIED.
    pub(super) async fn asked(
        &self,
        user: Option<UserId>,
        conversation: ConversationId,
        seqs: &[Seq],
        is_fresh: bool,
    ) -> Result<Asked, Error> {
        // Before the seats: a member who joins after it is in no message of these.
        let sent = self.sent(user, conversation, seqs).await?;
        let (asker, seats) = tokio::try_join!(self.asker(user, conversation), self.0.seats.of(conversation))?;
        let most = asked::most(&seats);
        let message = |(at, seq): (usize, &Seq)| {
            if at < most { found(&sent, *seq, asker, &seats) } else { Err(left_out()) }
        };
        let messages: Vec<_> = seqs.iter().enumerate().map(message).collect();
        let marks = self.marks(user, conversation, &seats, &messages, is_fresh).await?;
        Ok(Asked { messages, seats, marks })
    }

    /// Returns a page of the users who are this in the receipt of a message, from this ordinal on.
    ///
    /// # Errors
    /// As [`Self::asked`].
    pub(super) async fn list(
        &self,
        user: Option<UserId>,
        message: (ConversationId, Seq),
        state: ReceiptState,
        (from, size): (u32, usize),
        is_fresh: bool,
    ) -> Result<Users<UserId>, Error> {
        let asked = self.asked(user, message.0, &[message.1], is_fresh).await?;
        let message = asked.messages.first().cloned().unwrap_or_else(|| Err(Error::internal()))?;
        let receipt = asked.receipt(message);
        let user = |ordinal: u32| {
            let seat = asked.seats.seats.get(usize::try_from(ordinal).ok()?)?.as_ref()?;
            Some((ordinal, seat.user))
        };
        Ok(page(receipt.ordinals(state, from).filter_map(user), size))
    }

    /// Returns a page of the users who are or were in a conversation, from this ordinal on, each with its ordinal.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or those of a failing store.
    pub(super) async fn ordinals(
        &self,
        user: Option<UserId>,
        conversation: ConversationId,
        (from, size): (u32, usize),
    ) -> Result<Users<(u32, Seat)>, Error> {
        let bounds = self.0.messages.bounds(user, &[conversation]).await?;
        let bounds = bounds.into_iter().next().unwrap_or_else(|| Err(Error::internal()))?;
        if bounds.joined().is_none() {
            return Err(Error::not_allowed("only members of the group and services may do this"));
        }
        let seats = self.0.seats.of(conversation).await?;
        let skipped = usize::try_from(from).unwrap_or(usize::MAX);
        let seats = (from..).zip(seats.seats.iter().skip(skipped));
        Ok(page(seats.filter_map(|(at, seat)| Some((at, (at, seat.clone()?)))), size))
    }

    /// Who sent these messages, as far as the user can read them. The log is not read for those that were read a moment ago.
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
        // In a box: else each call takes the room of this one.
        let sent = Box::pin(messages.sent_messages(user, conversation, seqs.to_vec())).await?;
        self.0.sent.note(conversation, sent.messages(), since);
        Ok(sent)
    }

    /// What the readers of these messages have read.
    async fn marks(
        &self,
        user: Option<UserId>,
        conversation: ConversationId,
        seats: &GroupSeats,
        messages: &[Result<SentMessage, Error>],
        is_fresh: bool,
    ) -> Result<Arc<Marks>, Error> {
        let readers = asked::readers(seats, &asked::numbers(messages));
        if readers.is_empty() || (user.is_some() && self.is_blocked(conversation).await?) {
            return Ok(Arc::default());
        }
        self.0.marks.of(conversation, readers, is_fresh).await
    }

    /// Whether one of the users of a direct conversation has blocked the other. What they read is not shown then.
    async fn is_blocked(&self, conversation: ConversationId) -> Result<bool, Error> {
        let ConversationId::Direct(one, other) = conversation else { return Ok(false) };
        if one == other {
            return Ok(false);
        }
        let blocks = &self.0.messages.correspondents.blocks;
        Box::pin(blocks.is_either_blocked(Edge { from: one, to: other })).await
    }
}

/// A message, if the caller may see its receipt.
fn found(sent: &SentMessages, seq: Seq, asker: Asker, seats: &GroupSeats) -> Result<SentMessage, Error> {
    let message = sent.find(seq)?;
    asker.may_see(message, seats)?;
    Ok(message)
}

/// The first ones, and the ordinal of the next.
fn page<T>(mut all: impl Iterator<Item = (u32, T)>, size: usize) -> Users<T> {
    let items = all.by_ref().take(size).map(|(_, item)| item).collect();
    (items, all.next().map(|(ordinal, _)| ordinal))
}
