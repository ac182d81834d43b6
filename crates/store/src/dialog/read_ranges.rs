//! Which messages of a conversation a user has read.

use serde::{Deserialize, Serialize};

use super::{MarkKind, ReadMark};
use crate::{Invalid, Seq};

/// Most unread ranges that a range or a hidden mark may leave in a dialog.
pub const UNREAD_RANGES_MAX: usize = 256;

/// Consecutive numbers of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeqRange {
    /// The first of them.
    pub first: Seq,
    /// The last of them; not below the first.
    pub last: Seq,
}

impl SeqRange {
    /// Whether it contains a number.
    #[must_use]
    #[inline]
    pub const fn contains(self, seq: Seq) -> bool {
        self.first <= seq && seq <= self.last
    }

    /// The intersection with another range.
    #[must_use]
    pub fn common(self, other: Self) -> Option<Self> {
        let (first, last) = (self.first.max(other.first), self.last.min(other.last));
        (first <= last).then_some(Self { first, last })
    }
}

/// The first and the last number, as [`StayHistory`](crate::StayHistory) has them.
impl From<(Seq, Seq)> for SeqRange {
    fn from(ends: (Seq, Seq)) -> Self {
        let (first, last) = ends;
        Self { first, last }
    }
}

/// The mark would leave more than [`UNREAD_RANGES_MAX`] unread ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mark would leave too many unread ranges")]
pub struct TooManyRanges;

/// Which messages of a conversation a user has read: all up to a number, without those that were skipped.
///
/// A set that only grows: marks may come in any order and more than once, and give the same set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedRanges")]
pub struct ReadRanges {
    read_seq: Seq,
    /// Rising, with at least one read number between two, none above `read_seq`.
    unread: Vec<SeqRange>,
}

/// Stored ranges whose form is not checked yet.
#[derive(Deserialize)]
struct UncheckedRanges {
    read_seq: Seq,
    unread: Vec<SeqRange>,
}

impl TryFrom<UncheckedRanges> for ReadRanges {
    type Error = Invalid;

    fn try_from(unchecked: UncheckedRanges) -> Result<Self, Invalid> {
        let ranges = Self::new(unchecked.read_seq, unchecked.unread);
        ranges.ok_or_else(|| Invalid::new("must rise, without gaps that nothing was read in"))
    }
}

impl ReadRanges {
    /// Creates it from stored values. `None`: they do not have the form that marks leave.
    #[must_use]
    pub fn new(read_seq: Seq, unread: Vec<SeqRange>) -> Option<Self> {
        let rising = unread.windows(2).all(|pair| pair[0].last < pair[1].first.saturating_sub(1));
        let whole = unread.iter().all(|range| 1 <= range.first && range.first <= range.last);
        let below = unread.last().is_none_or(|range| range.last <= read_seq);
        (read_seq >= 0 && rising && whole && below).then_some(Self { read_seq, unread })
    }

    /// The highest number that a mark has reached; 0: none. Never falls.
    #[must_use]
    pub const fn read_seq(&self) -> Seq {
        self.read_seq
    }

    /// The numbers up to [`ReadRanges::read_seq`] that were not read, rising.
    #[must_use]
    pub fn unread(&self) -> &[SeqRange] {
        &self.unread
    }

    /// Whether the message with this number was read.
    #[must_use]
    #[inline]
    pub fn contains(&self, seq: Seq) -> bool {
        let at = self.unread.partition_point(|range| range.last < seq);
        let skipped = self.unread.get(at).is_some_and(|range| range.contains(seq));
        1 <= seq && seq <= self.read_seq && !skipped
    }

    /// The number up to which everything was read. A direct conversation shows it to the other user.
    #[must_use]
    pub fn shown_seq(&self) -> Seq {
        self.unread.first().map_or(self.read_seq, |range| range.first - 1)
    }

    /// The read messages after a mark: a superset of those read before it.
    ///
    /// # Errors
    /// [`TooManyRanges`] when a mark of ranges, or a hidden mark, adds unread ranges and leaves more than
    /// [`UNREAD_RANGES_MAX`] of them. A plain mark is never refused.
    pub fn mark(&self, mark: &ReadMark) -> Result<Self, TooManyRanges> {
        let mut marked = self.clone();
        match &mark.kind {
            MarkKind::UpTo(last) => marked.mark_range(SeqRange { first: 1, last: *last }, mark),
            MarkKind::Ranges(ranges) => ranges.iter().for_each(|range| marked.mark_range(*range, mark)),
            MarkKind::Hidden(last) if *last >= mark.joined => marked.raise_to(*last, mark),
            MarkKind::Hidden(_) => {}
        }
        let plain = matches!(mark.kind, MarkKind::UpTo(_));
        let count = marked.unread.len();
        if !plain && count > UNREAD_RANGES_MAX && count > self.unread.len() {
            return Err(TooManyRanges);
        }
        Ok(marked)
    }

    /// Marks the range's numbers within the current stay as read.
    fn mark_range(&mut self, range: SeqRange, mark: &ReadMark) {
        let Some(range) = range.common(mark.stay()) else { return };
        self.raise_to(range.last, mark);
        let left = |unread: SeqRange| {
            let before = unread.common(SeqRange { first: 1, last: range.first - 1 });
            let behind = unread.common(SeqRange { first: range.last.saturating_add(1), last: Seq::MAX });
            before.into_iter().chain(behind)
        };
        self.unread = self.unread.drain(..).flat_map(left).collect();
    }

    /// Raises `read_seq`. Numbers that it passes become unread if they are in a known stay. Unread numbers
    /// outside the known stays are forgotten.
    fn raise_to(&mut self, to: Seq, mark: &ReadMark) {
        if to <= self.read_seq {
            return;
        }
        let stays = || mark.earlier.iter().copied().chain([mark.stay()]);
        if self.read_seq < mark.joined - 1 {
            let known = |range: SeqRange| stays().filter_map(move |stay| range.common(stay));
            let before = std::mem::take(&mut self.unread);
            before.into_iter().flat_map(known).for_each(|range| self.add(range));
        }
        let passed = SeqRange { first: self.read_seq + 1, last: to };
        stays().filter_map(|stay| passed.common(stay)).for_each(|range| self.add(range));
        self.read_seq = to;
    }

    /// Adds an unread range above the others.
    fn add(&mut self, range: SeqRange) {
        match self.unread.last_mut() {
            Some(last) if last.last + 1 == range.first => last.last = range.last,
            _ => self.unread.push(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_another_form_are_not_deserialized() {
        let read = |unread: &str| {
            serde_json::from_str::<ReadRanges>(&format!("{{\"read_seq\":9,\"unread\":{unread}}}"))
        };
        let range = |first: i64, last: i64| format!("{{\"first\":{first},\"last\":{last}}}");
        assert!(read(&format!("[{},{}]", range(2, 3), range(5, 6))).is_ok());
        let wrong = [
            format!("[{},{}]", range(5, 6), range(2, 3)),
            format!("[{}]", range(2, 10)),
            format!("[{}]", range(3, 2)),
            format!("[{}]", range(0, 1)),
        ];
        assert!(wrong.iter().all(|unread| read(unread).is_err()));
    }
}
