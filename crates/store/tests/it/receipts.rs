//! Receipts: the example with five members, sizes, and random histories against one bit for each message and
//! member.

use std::collections::BTreeMap;

use kith_store::{
    ChangeContext, GroupId, MarkKind, MemberChange, MemberRow, MembershipTransition, OrdinalLists, ReadMark,
    ReadRanges, Receipt, ReceiptCounts, ReceiptState, Roster, Seat, SentMessage, Seq, SeqRange,
    SmallestReceipt, Timestamp, UserId,
};
use proptest::prelude::*;

fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

/// A group, its messages, and what each user has read, as the store decides them.
#[derive(Debug, Default)]
struct Group {
    roster: Roster,
    rows: BTreeMap<UserId, MemberRow>,
    read: BTreeMap<UserId, ReadRanges>,
    end: Seq,
}

impl Group {
    /// Users 1 to `count`, whose ordinals are 0 and following.
    fn of(count: i64) -> Self {
        let mut group = Self::default();
        group.change(&MemberChange::Add((1..=count).map(user).collect()));
        group
    }

    fn change(&mut self, change: &MemberChange) {
        let terms = ChangeContext { by: None, members_max: u32::MAX, bans_max: 0, history: false };
        let (id, rows) = (GroupId::new(9).unwrap(), self.rows.values().cloned());
        let mut transition =
            MembershipTransition::new(id, self.roster, rows, Timestamp(7)).with_log_end(Some(self.end));
        transition.change(change, terms).unwrap();
        let changed = transition.outcome();
        self.roster = changed.roster;
        self.rows.extend(changed.rows.into_iter().map(|row| (row.member.key.user, row)));
    }

    fn send(&mut self) -> Seq {
        self.end += 1;
        self.end
    }

    /// Marks as the mark queue does: clipped to the last stay.
    fn mark(&mut self, by: UserId, kind: MarkKind) {
        let row = &self.rows[&by];
        let last = if row.live { Seq::MAX } else { row.stays.left_seq };
        let stay = SeqRange { first: 1, last };
        let kind = match kind {
            MarkKind::UpTo(to) => MarkKind::UpTo(to.min(last)),
            MarkKind::Hidden(to) => MarkKind::Hidden(to.min(last)),
            MarkKind::Ranges(ranges) => {
                MarkKind::Ranges(ranges.into_iter().filter_map(|range| range.common(stay)).collect())
            }
        };
        let earlier = row.stays.earlier.iter().copied().map(SeqRange::from).collect();
        let mark = ReadMark { joined: row.member.joined_seq.max(1), earlier, kind };
        let read = self.read.entry(by).or_default();
        *read = read.mark(&mark).unwrap();
    }

    fn seats(&self) -> Vec<Option<Seat>> {
        let mut seats = vec![None; usize::try_from(self.roster.ordinals).unwrap()];
        for row in self.rows.values() {
            seats[usize::try_from(row.member.ordinal).unwrap()] = Some(Seat::of(row));
        }
        seats
    }

    fn receipt(&self, seq: Seq, sender: Option<UserId>) -> Receipt {
        let seats = self.seats();
        let has_read = |ordinal: usize| {
            let seat: &Seat = seats[ordinal].as_ref().unwrap();
            self.read.get(&seat.user).is_some_and(|read| read.contains(seq))
        };
        Receipt::of(&seats, SentMessage { seq, sender }, has_read)
    }
}

fn counts(read: u32, unread: u32, left: u32) -> ReceiptCounts {
    ReceiptCounts { read, unread, left }
}

#[test]
fn five_members_bit_for_bit() {
    let mut group = Group::of(5);
    let seq = group.send();
    let (a, d) = (Some(user(1)), user(4));
    assert_eq!(group.receipt(seq, a).packed(), [5, 0, 0, 0, 0b0000_0000, 0]);
    group.mark(d, MarkKind::UpTo(seq));
    assert_eq!(group.receipt(seq, a).packed(), [5, 0, 0, 0, 0b0000_1000, 0]);
    for other in [2, 3, 5] {
        group.mark(user(other), MarkKind::UpTo(seq));
    }
    assert_eq!(group.receipt(seq, a).packed(), [5, 0, 0, 0, 0b0001_1110, 0]);
    assert_eq!(group.receipt(seq, a).counts(), counts(4, 0, 0));
}

#[test]
fn quit_bits_follow_memberships() {
    let mut group = Group::of(5);
    let before = group.send();
    group.change(&MemberChange::Leave(user(3)));
    let without = group.send();
    group.change(&MemberChange::Join(user(3)));
    let after = group.send();
    let packed = |seq| group.receipt(seq, Some(user(1))).packed();
    assert_eq!(packed(without), [5, 0, 0, 0, 0, 0b0000_0100]);
    assert_eq!([packed(before), packed(after)], [[5, 0, 0, 0, 0, 0], [5, 0, 0, 0, 0, 0]]);
    let counted = |seq| group.receipt(seq, Some(user(1))).counts();
    assert_eq!(counted(without), counts(0, 3, 0), "three readers without the sender");
    assert_eq!(counted(before), counts(0, 3, 1), "that stay has ended");
    assert_eq!(counted(after), counts(0, 4, 0));
}

#[test]
fn late_member_is_not_counted() {
    let mut group = Group::of(3);
    let seq = group.send();
    group.change(&MemberChange::Join(user(4)));
    group.send();
    group.mark(user(4), MarkKind::UpTo(2));
    let receipt = group.receipt(seq, Some(user(1)));
    assert_eq!((receipt.max_id(), receipt.counts()), (3, counts(0, 2, 0)));
    assert_eq!(group.receipt(2, None).counts(), counts(1, 3, 0));
}

#[test]
fn sender_has_no_bit() {
    let mut group = Group::of(3);
    let seq = group.send();
    group.mark(user(2), MarkKind::UpTo(seq));
    let receipt = group.receipt(seq, Some(user(2)));
    assert_eq!((receipt.packed(), receipt.counts()), (vec![3, 0, 0, 0, 0, 0], counts(0, 2, 0)));
    assert_eq!(receipt.ordinals(ReceiptState::Sender, 0).collect::<Vec<_>>(), [1]);
}

#[test]
fn member_who_left_unread_is_listed_as_left() {
    let mut group = Group::of(4);
    let seq = group.send();
    group.mark(user(3), MarkKind::UpTo(seq));
    for leaving in [3, 4] {
        group.change(&MemberChange::Leave(user(leaving)));
    }
    let receipt = group.receipt(seq, Some(user(1)));
    assert_eq!(receipt.counts(), counts(1, 1, 1));
    assert_eq!(receipt.ordinals(ReceiptState::Left, 0).collect::<Vec<_>>(), [3]);
    assert_eq!(receipt.ordinals(ReceiptState::Read, 2).collect::<Vec<_>>(), [2]);
    assert_eq!(receipt.ordinals(ReceiptState::Read, 3).count(), 0);
}

#[test]
fn rejoin_keeps_ordinal_and_old_receipts() {
    let mut group = Group::of(3);
    let old = group.send();
    let before = group.receipt(old, Some(user(1)));
    group.change(&MemberChange::Leave(user(2)));
    group.send();
    group.change(&MemberChange::Join(user(2)));
    let new = group.send();
    group.mark(user(2), MarkKind::UpTo(new));
    let after = group.receipt(old, Some(user(1)));
    assert_eq!((before.packed(), after.packed()), (vec![3, 0, 0, 0, 0, 0], vec![3, 0, 0, 0, 0, 0]));
    assert_eq!(group.receipt(new, None).packed(), [3, 0, 0, 0, 0b010, 0]);
}

#[test]
fn rejoins_never_lower_max_id() {
    let mut group = Group::of(1);
    group.change(&MemberChange::Join(user(2)));
    let seq = group.send();
    for _ in 0..20 {
        group.change(&MemberChange::Leave(user(2)));
        group.send();
        group.change(&MemberChange::Join(user(2)));
        group.send();
        assert_eq!(group.receipt(seq, Some(user(1))).max_id(), 2);
    }
    let receipt = group.receipt(seq, Some(user(1)));
    assert_eq!(receipt.packed(), [2, 0, 0, 0, 0, 0b10], "the stay is forgotten");
}

#[test]
fn plain_mark_after_many_rejoins() {
    let mut group = Group::of(2);
    for _ in 0..20 {
        group.send();
        group.change(&MemberChange::Leave(user(2)));
        group.change(&MemberChange::Join(user(2)));
    }
    let last = group.send();
    group.mark(user(2), MarkKind::UpTo(last));
    assert_eq!(group.receipt(last, Some(user(1))).counts(), counts(1, 0, 0));
    assert_eq!(group.receipt(last - 1, Some(user(1))).counts(), counts(0, 0, 1));
}

#[test]
fn rows_from_before_messages_count_from_one() {
    let mut group = Group::of(3);
    group.change(&MemberChange::Leave(user(3)));
    for row in group.rows.values_mut() {
        (row.member.from_seq, row.member.joined_seq, row.stays) = (0, 0, kith_store::StayHistory::default());
    }
    let seq = group.send();
    let receipt = group.receipt(seq, None);
    assert_eq!((receipt.packed(), receipt.counts()), (vec![3, 0, 0, 0, 0, 0b100], counts(0, 2, 0)));
}

#[test]
fn packed_sizes_are_exact() {
    for (members, bytes) in [(1, 6), (7, 6), (8, 6), (9, 8), (64, 20), (65, 22), (200, 54)] {
        let mut group = Group::of(members);
        let seq = group.send();
        let receipt = group.receipt(seq, Some(user(1)));
        assert_eq!(receipt.packed().len(), bytes, "{members} members");
    }
}

/// Makes this many members; the first `readers` members have read the message.
fn of_many(members: usize, readers: usize) -> Receipt {
    let seats: Vec<_> =
        (1..=i64::try_from(members).unwrap()).map(|id| Some(Seat::direct(user(id)))).collect();
    Receipt::of(&seats, SentMessage { seq: 1, sender: None }, |ordinal| ordinal < readers)
}

fn bytes(receipt: &Receipt) -> (bool, usize) {
    match receipt.smallest() {
        SmallestReceipt::Packed(packed) => (true, packed.len()),
        SmallestReceipt::Lists(OrdinalLists { readers, quitters, .. }) => {
            (false, 4 + 4 * (readers.len() + quitters.len()))
        }
    }
}

#[test]
fn smallest_of_100000_members_is_lists_or_bits() {
    assert_eq!(bytes(&of_many(100_000, 100)), (false, 404));
    assert_eq!(bytes(&of_many(100_000, 90_000)), (true, 25_004));
    // 4 + 4 * 6250 bytes are as many as bits need, and then bits are used.
    assert_eq!((bytes(&of_many(100_000, 6_249)), bytes(&of_many(100_000, 6_250)).0), ((false, 25_000), true));
}

#[test]
fn million_ordinals_are_sent_as_lists() {
    let gone = |id: i64| {
        let mut group = Group::default();
        group.change(&MemberChange::Join(user(id)));
        group.change(&MemberChange::Leave(user(id)));
        group.seats().pop().unwrap()
    };
    let (member, former) = (Some(Seat::direct(user(1))), gone(2));
    let seats: Vec<_> =
        (0..1_000_000).map(|at| if at % 5_000 == 0 { &member } else { &former }).cloned().collect();
    let receipt = Receipt::of(&seats, SentMessage { seq: 1, sender: None }, |ordinal| ordinal % 10_000 == 0);
    let SmallestReceipt::Lists(lists) = receipt.smallest() else { panic!("lists") };
    assert_eq!((lists.readers.len(), lists.quitters.len(), lists.names_present), (100, 200, true));
    assert_eq!((lists.readers[1], lists.quitters[1]), (10_000, 5_000));
    assert_eq!(receipt.packed().len(), 250_004);
}

/// A step in a random history of a group.
#[derive(Clone, Copy, Debug)]
enum Step {
    Join(i64),
    Leave(i64),
    /// This user sends if it is a member, otherwise a service does.
    Send(i64),
    /// Marks numbers that exist, by their share of the end in thousandths.
    Mark {
        by: i64,
        kind: u8,
        shares: (Seq, Seq),
    },
}

const USERS: i64 = 6;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let mark = (1..=USERS, 0..3_u8, 0..=1_000_i64, 0..=1_000_i64)
        .prop_map(|(by, kind, one, other)| Step::Mark { by, kind, shares: (one.min(other), one.max(other)) });
    let step = prop_oneof![
        2 => (1..=USERS).prop_map(Step::Join),
        1 => (1..=USERS).prop_map(Step::Leave),
        3 => (0..=USERS).prop_map(Step::Send),
        4 => mark,
    ];
    prop::collection::vec(step, 1..60)
}

/// A message in the model, with an entry for each ordinal that there was.
#[derive(Debug)]
struct MessageRow {
    sender: Option<i64>,
    /// Whether it was a member, in which stay, and whether it has read the message.
    members: Vec<Option<(usize, bool)>>,
}

/// Keeps one bit for each message and member.
#[derive(Debug, Default)]
struct Matrix {
    rows: Vec<MessageRow>,
    /// Indexed by ordinal.
    users: Vec<i64>,
    /// How many stays each user has begun, and whether the last stay goes on.
    stays: BTreeMap<i64, (usize, bool)>,
}

impl Matrix {
    fn join(&mut self, id: i64) {
        let stay = self.stays.entry(id).or_default();
        if stay.0 == 0 {
            self.users.push(id);
        }
        *stay = (stay.0 + 1, true);
    }

    fn is_member(&self, id: i64) -> bool {
        self.stays.get(&id).is_some_and(|(_, goes_on)| *goes_on)
    }

    fn send(&mut self, sender: Option<i64>) {
        let membership = |id: &i64| self.is_member(*id).then(|| (self.stays[id].0, false));
        let members = self.users.iter().map(membership).collect();
        self.rows.push(MessageRow { sender, members });
    }

    /// Only messages in the last stay can be marked.
    fn mark(&mut self, by: i64, first: Seq, last: Seq) {
        let Some(ordinal) = self.users.iter().position(|id| *id == by) else { return };
        let stay = self.stays[&by].0;
        for seq in first.max(1)..=last {
            let row = &mut self.rows[usize::try_from(seq - 1).unwrap()];
            if let Some(Some((of, has_read))) = row.members.get_mut(ordinal) {
                *has_read |= *of == stay;
            }
        }
    }

    /// A message's packed bits and counts.
    fn receipt(&self, row: &MessageRow) -> (Vec<u8>, ReceiptCounts) {
        let bytes = row.members.len().div_ceil(8);
        let (mut read, mut quit, mut counts) =
            (vec![0_u8; bytes], vec![0_u8; bytes], ReceiptCounts::default());
        for (ordinal, member) in row.members.iter().enumerate() {
            let id = self.users[ordinal];
            match member {
                None => quit[ordinal / 8] |= 1 << (ordinal % 8),
                Some(_) if row.sender == Some(id) => {}
                Some((_, true)) => {
                    read[ordinal / 8] |= 1 << (ordinal % 8);
                    counts.read += 1;
                }
                Some((stay, false)) if self.stays[&id] == (*stay, true) => counts.unread += 1,
                Some((_, false)) => counts.left += 1,
            }
        }
        let max_id = u32::try_from(row.members.len()).unwrap().to_le_bytes();
        ([&max_id[..], &read, &quit].concat(), counts)
    }
}

/// Makes a step in both.
fn make(group: &mut Group, matrix: &mut Matrix, step: Step) {
    match step {
        // Only this many stays are known.
        Step::Join(id) if !matrix.is_member(id) && matrix.stays.get(&id).is_none_or(|stay| stay.0 < 17) => {
            matrix.join(id);
            group.change(&MemberChange::Join(user(id)));
        }
        Step::Leave(id) if matrix.is_member(id) => {
            matrix.stays.entry(id).and_modify(|stay| stay.1 = false);
            group.change(&MemberChange::Leave(user(id)));
        }
        Step::Send(id) => {
            matrix.send(Some(id).filter(|id| matrix.is_member(*id)));
            group.send();
        }
        Step::Mark { by, kind, shares } if matrix.stays.contains_key(&by) => {
            let (first, last) = (shares.0 * group.end / 1_000, shares.1 * group.end / 1_000);
            let kind = match kind {
                0 => MarkKind::UpTo(last),
                1 => MarkKind::Hidden(last),
                _ => MarkKind::Ranges(vec![SeqRange { first: first.max(1), last: last.max(1) }]),
            };
            match &kind {
                _ if group.end == 0 => return,
                MarkKind::UpTo(last) => matrix.mark(by, 1, *last),
                MarkKind::Ranges(ranges) => matrix.mark(by, ranges[0].first, ranges[0].last),
                MarkKind::Hidden(_) => {}
            }
            group.mark(user(by), kind);
        }
        Step::Join(_) | Step::Leave(_) | Step::Mark { .. } => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn receipts_equal_a_bit_matrix(steps in steps()) {
        let (mut group, mut matrix) = (Group::default(), Matrix::default());
        for step in steps {
            make(&mut group, &mut matrix, step);
        }
        for (seq, row) in (1..).zip(&matrix.rows) {
            let receipt = group.receipt(seq, row.sender.map(user));
            let (packed, counts) = matrix.receipt(row);
            prop_assert_eq!(&receipt.packed(), &packed, "{}", seq);
            prop_assert_eq!(receipt.counts(), counts, "{}", seq);
            let quit = receipt.ordinals(ReceiptState::Quit, 0).count();
            let senders = receipt.ordinals(ReceiptState::Sender, 0).count();
            let sum = counts.read + counts.unread + counts.left;
            prop_assert_eq!(u32::try_from(quit + senders).unwrap() + sum, receipt.max_id());
            prop_assert_eq!(unpacked(&receipt.lists(), receipt.max_id()), packed[4..].to_vec());
        }
    }
}

/// The bits that the lists represent.
fn unpacked(lists: &OrdinalLists, max_id: u32) -> Vec<u8> {
    let bytes = usize::try_from(max_id).unwrap().div_ceil(8);
    let bits = |is_set: &dyn Fn(u32) -> bool| {
        let mut bits = vec![0_u8; bytes];
        for ordinal in (0..max_id).filter(|ordinal| is_set(*ordinal)) {
            bits[usize::try_from(ordinal / 8).unwrap()] |= 1 << (ordinal % 8);
        }
        bits
    };
    let read = bits(&|ordinal| lists.readers.contains(&ordinal));
    let quit = bits(&|ordinal| lists.quitters.contains(&ordinal) != lists.names_present);
    [read, quit].concat()
}
