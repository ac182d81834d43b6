//! The data from which receipts are computed.

use std::{ops::Range, sync::Arc};

use kith_store::{MembershipAtSend, Receipt, Seat, SentMessage, Seq, UserId};

use super::marks::MarksByOrdinal;
use crate::{error::Error, group::member::GroupSeats};

/// The most steps in one call: a step for each ordinal and message.
const STEPS_MAX: usize = 10_000_000;

/// The data from which some messages' receipts are computed, at one moment.
#[derive(Debug)]
pub(super) struct ReceiptInputs {
    /// The requested messages, in their order; or why a message has no receipt for the caller.
    pub(super) messages: Vec<Result<SentMessage, Error>>,
    pub(super) seats: Arc<GroupSeats>,
    pub(super) marks: Arc<MarksByOrdinal>,
}

impl ReceiptInputs {
    /// One message's receipt. Costs a step for each ordinal.
    pub(super) fn receipt(&self, message: SentMessage) -> Receipt {
        Receipt::of(&self.seats.seats, message, self.marks.have_read(message.seq))
    }
}

/// How many messages one call computes.
pub(super) fn most(seats: &GroupSeats) -> usize {
    (STEPS_MAX / seats.seats.len().max(1)).max(1)
}

/// The found messages' numbers.
pub(super) fn numbers(messages: &[Result<SentMessage, Error>]) -> Vec<Seq> {
    let mut seqs: Vec<Seq> = messages.iter().flatten().map(|message| message.seq).collect();
    seqs.sort_unstable();
    seqs.dedup();
    seqs
}

/// The users with ordinals in this range who were members when any of these messages was sent, by rising
/// ordinal.
pub(super) fn readers(
    seats: &GroupSeats,
    range: Range<usize>,
    seqs: &[Seq],
) -> impl Iterator<Item = (usize, UserId)> {
    let some = seats.seats.get(range.clone()).unwrap_or_default();
    let was_in = |seat: &Seat| seqs.iter().any(|seq| seat.membership_at(*seq) != MembershipAtSend::Absent);
    let numbered = range.zip(some).filter_map(|(at, seat)| Some((at, seat.as_ref()?)));
    numbered.filter(move |(_, seat)| was_in(seat)).map(|(at, seat)| (at, seat.user))
}
