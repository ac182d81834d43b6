//! The marks by which users say what they have read.

use super::SeqRange;
use crate::Seq;

/// Most ranges of one [`MarkKind::Ranges`].
pub const MARK_RANGES_MAX: usize = 100;

/// Messages that a user has read. Only numbers in the current stay are marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadMark {
    /// The first number of the current stay, from the member's strict record; at least 1. A direct
    /// conversation is one stay from 1.
    pub joined: Seq,
    /// The known earlier stays, rising and apart, all below `joined`. Needed only while the dialog's
    /// `read_seq` is below `joined - 1`: messages that a mark skips become unread if they are in a stay.
    /// `read_seq` never falls, so a caller whose copy, of any age, has a higher `read_seq` passes no stays.
    pub earlier: Vec<SeqRange>,
    /// Which messages the mark covers.
    pub kind: MarkKind,
}

/// Which messages a mark covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// All of the current stay up to this number.
    UpTo(Seq),
    /// The numbers in these ranges, at most [`MARK_RANGES_MAX`], in any order. Skipped messages stay unread.
    Ranges(Vec<SeqRange>),
    /// No message, but `read_seq` rises to this number: the badge is cleared, and other users do not see it.
    Hidden(Seq),
}

/// Says where a mark does nothing but raise `read_seq`: in each dialog without unread ranges whose `read_seq`
/// is at least `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkRaise {
    /// The lowest `read_seq` for which this holds.
    pub from: Seq,
    /// The new `read_seq`, unless it is higher already.
    pub to: Seq,
}

impl ReadMark {
    /// A mark in a conversation that is one stay from 1, as direct ones are.
    #[must_use]
    pub const fn direct(kind: MarkKind) -> Self {
        Self { joined: 1, earlier: Vec::new(), kind }
    }

    /// Returns where the mark does nothing but raise `read_seq`, so that a store can write it without a read.
    #[must_use]
    pub fn raise(&self) -> MarkRaise {
        let ranges = match &self.kind {
            MarkKind::UpTo(last) => self.within_stay(&[SeqRange { first: 1, last: *last }]),
            MarkKind::Ranges(ranges) => self.within_stay(ranges),
            MarkKind::Hidden(last) if *last >= self.joined => return MarkRaise { from: *last, to: *last },
            MarkKind::Hidden(_) => Vec::new(),
        };
        match ranges[..] {
            [] => MarkRaise { from: 0, to: 0 },
            [one] if one.first == self.joined => MarkRaise { from: self.stays_end(), to: one.last },
            [one] => MarkRaise { from: one.first - 1, to: one.last },
            [.., last] => MarkRaise { from: last.last, to: last.last },
        }
    }

    /// The current stay.
    pub(super) const fn stay(&self) -> SeqRange {
        SeqRange { first: self.joined, last: Seq::MAX }
    }

    /// The last number of the known earlier stays; 0: there is none.
    fn stays_end(&self) -> Seq {
        self.earlier.last().map_or(0, |stay| stay.last)
    }

    /// The ranges within the current stay, rising, with a gap between two.
    fn within_stay(&self, ranges: &[SeqRange]) -> Vec<SeqRange> {
        let mut within: Vec<SeqRange> = ranges.iter().filter_map(|range| range.common(self.stay())).collect();
        within.sort_unstable();
        within.dedup_by(|range, before| {
            let touches = range.first <= before.last.saturating_add(1);
            if touches {
                before.last = before.last.max(range.last);
            }
            touches
        });
        within
    }
}
