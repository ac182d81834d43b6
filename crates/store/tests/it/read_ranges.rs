//! Tests read marks against one bit for each message, over joins, leaves and marks of every kind.

use std::collections::BTreeSet;

use kith_store::{MarkKind, ReadMark, ReadRanges, Seq, SeqRange, TooManyRanges, UNREAD_RANGES_MAX};
use proptest::prelude::*;

/// A step in a random history of a member and its conversation.
#[derive(Clone, Debug)]
enum Step {
    /// Sends this many messages.
    Send(Seq),
    /// The member leaves, and joins again after so many messages.
    Rejoin(Seq),
    /// Marks numbers that are there, by their share of the end in thousandths.
    Mark { kind: u8, shares: Vec<(Seq, Seq)>, names_stays: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let shares = prop::collection::vec((0..=1_000_i64, 0..=1_000_i64), 1..4);
    let mark = (0..3_u8, shares, any::<bool>()).prop_map(|(kind, shares, names_stays)| Step::Mark {
        kind,
        shares,
        names_stays,
    });
    let step =
        prop_oneof![2 => (1..9_i64).prop_map(Step::Send), 1 => (0..5_i64).prop_map(Step::Rejoin), 4 => mark];
    prop::collection::vec(step, 1..40)
}

/// Keeps one bit for each message, and the highest number that a mark has reached.
#[derive(Debug)]
struct Model {
    end: Seq,
    joined: Seq,
    earlier: Vec<SeqRange>,
    read: BTreeSet<Seq>,
    top: Seq,
}

impl Model {
    fn new() -> Self {
        Self { end: 0, joined: 1, earlier: Vec::new(), read: BTreeSet::new(), top: 0 }
    }

    fn rejoin(&mut self, absence: Seq) {
        if self.joined <= self.end {
            self.earlier.push(SeqRange { first: self.joined, last: self.end });
        }
        self.end += absence;
        self.joined = self.end + 1;
    }

    fn mark(&mut self, kind: &MarkKind) {
        let (ranges, reads) = match kind {
            MarkKind::UpTo(last) => (vec![SeqRange { first: 1, last: *last }], true),
            MarkKind::Ranges(ranges) => (ranges.clone(), true),
            MarkKind::Hidden(last) => (vec![SeqRange { first: 1, last: *last }], false),
        };
        for seq in ranges.iter().flat_map(|range| range.first..=range.last).filter(|seq| *seq >= self.joined)
        {
            self.top = self.top.max(seq);
            if reads {
                self.read.insert(seq);
            }
        }
    }

    fn is_in_a_stay(&self, seq: Seq) -> bool {
        seq >= self.joined || self.earlier.iter().any(|stay| stay.contains(seq))
    }

    fn unread(&self) -> BTreeSet<Seq> {
        (1..=self.top).filter(|seq| self.is_in_a_stay(*seq) && !self.read.contains(seq)).collect()
    }

    fn kind(&self, kind: u8, shares: &[(Seq, Seq)]) -> MarkKind {
        let at_share = |share: Seq| share * self.end / 1_000;
        match kind {
            0 => MarkKind::UpTo(at_share(shares[0].0)),
            1 => MarkKind::Hidden(at_share(shares[0].0)),
            _ => MarkKind::Ranges(
                shares
                    .iter()
                    .map(|(a, b)| (at_share(*a).max(1), at_share(*b).max(1)))
                    .map(|(a, b)| SeqRange { first: a.min(b), last: a.max(b) })
                    .collect(),
            ),
        }
    }

    /// The mark as a caller sends it, which leaves out the stays where it may.
    fn call(&self, kind: MarkKind, names_stays: bool, known: &ReadRanges) -> ReadMark {
        let needed = known.read_seq() < self.joined - 1;
        let earlier = if needed || names_stays { self.earlier.clone() } else { Vec::new() };
        ReadMark { joined: self.joined, earlier, kind }
    }
}

fn numbers(ranges: &[SeqRange]) -> BTreeSet<Seq> {
    ranges.iter().flat_map(|range| range.first..=range.last).collect()
}

/// Runs a history, and hands each mark with the state before it to `each`.
fn run(steps: Vec<Step>, mut each: impl FnMut(&Model, &ReadRanges, &ReadMark)) -> (Model, ReadRanges) {
    let (mut model, mut ranges) = (Model::new(), ReadRanges::default());
    for step in steps {
        match step {
            Step::Send(count) => model.end += count,
            Step::Rejoin(absence) => model.rejoin(absence),
            Step::Mark { kind, shares, names_stays } => {
                let mark = model.call(model.kind(kind, &shares), names_stays, &ranges);
                each(&model, &ranges, &mark);
                model.mark(&mark.kind);
                ranges = ranges.mark(&mark).unwrap();
                assert_eq!(ranges.read_seq(), model.top);
                assert_eq!(numbers(ranges.unread()), model.unread());
            }
        }
    }
    (model, ranges)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn marks_equal_one_bit_for_each_message(steps in steps()) {
        let (model, ranges) = run(steps, |_, _, _| {});
        for seq in (0..=model.end + 2).filter(|seq| model.is_in_a_stay(*seq)) {
            prop_assert_eq!(ranges.contains(seq), model.read.contains(&seq), "{}", seq);
        }
        let shown = (1..=model.top).take_while(|seq| !model.unread().contains(seq)).last().unwrap_or(0);
        prop_assert_eq!(ranges.shown_seq(), shown);
        let stored = ReadRanges::new(ranges.read_seq(), ranges.unread().to_vec());
        prop_assert_eq!(stored, Some(ranges), "what marks leave can be stored");
    }

    #[test]
    fn repeated_mark_changes_nothing(steps in steps()) {
        run(steps, |_, before, mark| {
            let once = before.mark(mark).unwrap();
            assert_eq!(once.mark(mark).unwrap(), once);
        });
    }

    #[test]
    fn read_mark_never_falls(steps in steps()) {
        run(steps, |_, before, mark| assert!(before.mark(mark).unwrap().read_seq() >= before.read_seq()));
    }

    #[test]
    fn marks_of_one_stay_commute(steps in steps(), seed in any::<u64>()) {
        let (model, ranges) = run(steps, |_, _, _| {});
        let kinds = [(0, seed % 1_000), (1, seed / 7 % 1_000), (2, seed / 11 % 1_000)];
        let marks = kinds.map(|(kind, share)| {
            let share = i64::try_from(share).unwrap();
            model.call(model.kind(kind, &[(share, 1_000 - share)]), false, &ranges)
        });
        let after = |order: [usize; 3]| {
            order.iter().fold(ranges.clone(), |ranges, at| ranges.mark(&marks[*at]).unwrap())
        };
        for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            prop_assert_eq!(after(order), after([0, 1, 2]));
        }
    }

    #[test]
    fn raise_is_all_that_a_mark_does_from_there(steps in steps(), read_seq in 0..200_i64) {
        run(steps, |_, _, mark| {
            let raise = mark.raise();
            let read_seq = read_seq.max(raise.from);
            let before = ReadRanges::new(read_seq, Vec::new()).unwrap();
            let after = ReadRanges::new(read_seq.max(raise.to), Vec::new()).unwrap();
            assert_eq!(before.mark(mark).unwrap(), after, "{mark:?}");
            assert_eq!(ReadRanges::default().mark(mark).unwrap().read_seq(), raise.to, "{mark:?}");
        });
    }
}

/// Marks every second number, from 2.
fn alternating(count: i64) -> ReadRanges {
    let gaps = (1..=count).map(|at| SeqRange { first: 2 * at - 1, last: 2 * at - 1 }).collect();
    ReadRanges::new(2 * count, gaps).unwrap()
}

fn most() -> i64 {
    i64::try_from(UNREAD_RANGES_MAX).unwrap()
}

#[test]
fn one_range_too_many_is_refused() {
    let full = alternating(most());
    let skipping = MarkKind::Ranges(vec![SeqRange { first: 2 * most() + 2, last: 2 * most() + 2 }]);
    assert_eq!(full.mark(&ReadMark::direct(skipping.clone())), Err(TooManyRanges));
    assert_eq!(full.mark(&ReadMark::direct(MarkKind::Hidden(2 * most() + 2))), Err(TooManyRanges));
    assert!(alternating(most() - 1).mark(&ReadMark::direct(skipping)).is_ok());
}

#[test]
fn plain_mark_is_never_refused() {
    let full = alternating(most());
    let earlier = vec![SeqRange { first: 1, last: 2 * most() + 10 }];
    let mark = ReadMark { joined: 2 * most() + 20, earlier, kind: MarkKind::UpTo(2 * most() + 30) };
    assert_eq!(full.mark(&mark).unwrap().unread().len(), UNREAD_RANGES_MAX + 1);
    let all = ReadMark::direct(MarkKind::UpTo(2 * most()));
    assert_eq!(full.mark(&all).unwrap().unread(), []);
}

#[test]
fn mark_that_adds_no_range_is_not_refused() {
    let over = alternating(most() + 3);
    let filling = MarkKind::Ranges(vec![SeqRange { first: 1, last: 1 }]);
    assert_eq!(over.mark(&ReadMark::direct(filling)).unwrap().unread().len(), UNREAD_RANGES_MAX + 2);
}

#[test]
fn ranges_of_unknown_stays_are_forgotten() {
    let before = ReadRanges::new(30, vec![SeqRange { first: 5, last: 6 }, SeqRange { first: 25, last: 26 }]);
    let earlier = vec![SeqRange { first: 20, last: 30 }];
    let mark = ReadMark { joined: 41, earlier, kind: MarkKind::UpTo(41) };
    assert_eq!(before.unwrap().mark(&mark).unwrap().unread(), [SeqRange { first: 25, last: 26 }]);
}

#[test]
fn other_forms_are_not_taken() {
    let range = |first, last| SeqRange { first, last };
    for (read_seq, unread) in [
        (-1, vec![]),
        (5, vec![range(0, 1)]),
        (5, vec![range(3, 2)]),
        (5, vec![range(3, 6)]),
        (9, vec![range(3, 4), range(5, 6)]),
        (9, vec![range(5, 6), range(1, 2)]),
    ] {
        assert_eq!(ReadRanges::new(read_seq, unread.clone()), None, "{unread:?}");
    }
}
