//! Receipts: which users have read a message. Nothing is stored for them: a receipt is computed from the
//! members' stays and read marks.

use crate::{MemberRow, Seq, SeqRange, UserId};

/// A present or former group member, with the data that receipts need. Its index is its ordinal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The member's user id.
    pub user: UserId,
    /// The first message in its first stay.
    first_seq: Seq,
    /// The last stay. It has no end for a member.
    last: SeqRange,
    /// The known stays before, rising.
    earlier: Box<[SeqRange]>,
}

/// A user's membership when a message was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipAtSend {
    /// Not a member, or a member in a stay that is no longer stored.
    Absent,
    /// A member, in a stay that has ended.
    Ended,
    /// A member, and has been one since.
    Member,
}

impl Seat {
    /// Reads a stored row. In a row from before there were messages, stays begin at 1, and a stay that has
    /// ended has no message.
    #[must_use]
    pub fn of(MemberRow { member, live, stays }: &MemberRow) -> Self {
        let left = if *live { Seq::MAX } else { stays.left_seq };
        Self {
            user: member.key.user,
            first_seq: stays.first_seq.max(1),
            last: SeqRange { first: member.joined_seq.max(1), last: left },
            earlier: stays.earlier.iter().copied().map(SeqRange::from).collect(),
        }
    }

    /// Makes the entry for a user in a direct conversation.
    #[must_use]
    pub fn direct(user: UserId) -> Self {
        let last = SeqRange { first: 1, last: Seq::MAX };
        Self { user, first_seq: 1, last, earlier: Box::default() }
    }

    /// Whether the user is in the group now.
    #[must_use]
    #[inline]
    pub const fn is_member(&self) -> bool {
        self.last.last == Seq::MAX
    }

    /// The membership when the message with this number was sent.
    #[must_use]
    #[inline]
    pub fn membership_at(&self, seq: Seq) -> MembershipAtSend {
        if self.last.contains(seq) {
            return if self.is_member() { MembershipAtSend::Member } else { MembershipAtSend::Ended };
        }
        let was_in = self.earlier.iter().any(|stay| stay.contains(seq));
        if was_in { MembershipAtSend::Ended } else { MembershipAtSend::Absent }
    }
}

/// A receipt's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentMessage {
    /// The message's number.
    pub seq: Seq,
    /// The sender; `None`: a service.
    pub sender: Option<UserId>,
}

/// A user's part in a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptState {
    /// It was not a member when the message was sent.
    Quit,
    /// It sent the message.
    Sender,
    /// It has read it.
    Read,
    /// It is a member and has not read it.
    Unread,
    /// It has not read it, and the stay has ended.
    Left,
}

/// A receipt's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiptCounts {
    /// Users who have read the message.
    pub read: u32,
    /// Members who have not read it.
    pub unread: u32,
    /// Users who have not read it, and have left.
    pub left: u32,
}

/// A message's receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    seq: Seq,
    /// The users by ordinal.
    states: Vec<ReceiptState>,
}

/// Read and quit bits as lists of ordinals, four bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrdinalLists {
    /// The message's readers, rising.
    pub readers: Vec<u32>,
    /// Users who quit, rising; with `names_present`, users who did not.
    pub quitters: Vec<u32>,
    /// Whether `quitters` contains those who did not quit: it is the shorter list.
    pub names_present: bool,
}

/// The smaller form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmallestReceipt {
    /// See [`Receipt::packed`].
    Packed(Vec<u8>),
    /// See [`Receipt::lists`].
    Lists(OrdinalLists),
}

impl Receipt {
    /// Computes a message's receipt. `seats`: all the group's present and former members, each at the index
    /// of its ordinal; `None` counts as a user who quit. `has_read`: whether the user with this ordinal has
    /// read the message; asked about readers alone, by rising ordinal.
    ///
    /// Costs a step for each ordinal.
    #[must_use]
    pub fn of(seats: &[Option<Seat>], message: SentMessage, has_read: impl Fn(usize) -> bool) -> Self {
        let was_in = |seat: &Option<Seat>| seat.as_ref().is_some_and(|seat| seat.first_seq <= message.seq);
        let max_id = seats.iter().rposition(was_in).map_or(0, |highest| highest + 1);
        let state = |(ordinal, seat): (usize, &Option<Seat>)| {
            let Some(seat) = seat else { return ReceiptState::Quit };
            match seat.membership_at(message.seq) {
                MembershipAtSend::Absent => ReceiptState::Quit,
                _ if message.sender == Some(seat.user) => ReceiptState::Sender,
                _ if has_read(ordinal) => ReceiptState::Read,
                MembershipAtSend::Member => ReceiptState::Unread,
                MembershipAtSend::Ended => ReceiptState::Left,
            }
        };
        Self { seq: message.seq, states: seats[..max_id].iter().enumerate().map(state).collect() }
    }

    /// Returns the message's number.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// The highest ordinal plus 1 among users who had been members by then; 0: there were none. Never falls.
    #[must_use]
    pub fn max_id(&self) -> u32 {
        as_ordinal(self.states.len())
    }

    /// The counts. `max_id` is their sum plus the users who quit, plus 1 if the sender was a member.
    #[must_use]
    pub fn counts(&self) -> ReceiptCounts {
        let count = |state| self.count(state);
        ReceiptCounts {
            read: count(ReceiptState::Read),
            unread: count(ReceiptState::Unread),
            left: count(ReceiptState::Left),
        }
    }

    /// The ordinals of the users with this part, rising, from this ordinal on.
    pub fn ordinals(&self, state: ReceiptState, from: u32) -> impl Iterator<Item = u32> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let states = self.states.iter().enumerate().skip(from);
        states.filter(move |(_, found)| **found == state).map(|(ordinal, _)| as_ordinal(ordinal))
    }

    /// `max_id` as four bytes, the lowest first; then a read bit and then a quit bit for each ordinal:
    /// ordinal o has bit o % 8, the lowest first, in byte o / 8. The sender has neither.
    #[must_use]
    pub fn packed(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.packed_size());
        packed.extend(self.max_id().to_le_bytes());
        for bit in [ReceiptState::Read, ReceiptState::Quit] {
            let byte = |states: &[ReceiptState]| {
                states.iter().rev().fold(0_u8, |byte, state| (byte << 1) | u8::from(*state == bit))
            };
            packed.extend(self.states.chunks(8).map(byte));
        }
        packed
    }

    /// Returns the same bits as lists.
    #[must_use]
    pub fn lists(&self) -> OrdinalLists {
        let quitters = self.count(ReceiptState::Quit);
        let names_present = self.max_id() - quitters < quitters;
        let named = |(_, state): &(usize, &ReceiptState)| (**state == ReceiptState::Quit) != names_present;
        OrdinalLists {
            readers: self.ordinals(ReceiptState::Read, 0).collect(),
            quitters: self.states.iter().enumerate().filter(named).map(|(at, _)| as_ordinal(at)).collect(),
            names_present,
        }
    }

    /// Lists if they take fewer bytes, else bits.
    #[must_use]
    pub fn smallest(&self) -> SmallestReceipt {
        if self.lists_size() < self.packed_size() {
            SmallestReceipt::Lists(self.lists())
        } else {
            SmallestReceipt::Packed(self.packed())
        }
    }

    fn packed_size(&self) -> usize {
        4 + 2 * self.states.len().div_ceil(8)
    }

    /// Four bytes for each ordinal that is named, and for `max_id`.
    fn lists_size(&self) -> usize {
        let (readers, quitters) = (self.count(ReceiptState::Read), self.count(ReceiptState::Quit));
        let named = readers + quitters.min(self.max_id() - quitters);
        4 + 4 * usize::try_from(named).unwrap_or(usize::MAX / 8)
    }

    fn count(&self, state: ReceiptState) -> u32 {
        as_ordinal(self.states.iter().filter(|found| **found == state).count())
    }
}

/// Ordinals are 32-bit numbers ([`Member::ordinal`](crate::Member::ordinal)), and so is their count.
fn as_ordinal(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
