//! The read marks of the users of a conversation, by ordinal.

use std::cell::Cell;

use kith_store::{ReadRanges, Seq, UserId};

/// The read marks of the users of a conversation. Contains only users whom a call has requested.
#[derive(Clone, Debug, Default)]
pub(super) struct MarksByOrdinal(
    /// The marks by rising ordinal: a receipt merges them with the seats, which is several times cheaper than
    /// a lookup for each.
    Vec<(usize, ReadRanges)>,
);

impl MarksByOrdinal {
    /// Number of users in it.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns those of these users who are not in it. Users must be given by rising ordinal.
    pub(super) fn missing(&self, users: impl IntoIterator<Item = (usize, UserId)>) -> Vec<(usize, UserId)> {
        let mut known = self.0.iter().map(|(at, _)| *at).peekable();
        let is_missing = |(at, _): &(usize, UserId)| {
            while known.next_if(|known| known < at).is_some() {}
            known.peek() != Some(at)
        };
        users.into_iter().filter(is_missing).collect()
    }

    /// Adds users who are not in it, in any order.
    pub(super) fn add(&mut self, marks: Vec<(usize, ReadRanges)>) {
        self.0.extend(marks);
        self.0.sort_by_key(|(at, _)| *at);
    }

    /// Whether users have read a message; a user who is not in it has not. Must be called with rising
    /// ordinals.
    pub(super) fn have_read(&self, seq: Seq) -> impl Fn(usize) -> bool {
        let next = Cell::new(0);
        move |ordinal| {
            let left = self.0.get(next.get()..).unwrap_or_default();
            let passed = left.iter().take_while(|(at, _)| *at < ordinal).count();
            next.set(next.get() + passed);
            left.get(passed).is_some_and(|(at, read)| *at == ordinal && read.contains(seq))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(of: &[(usize, Seq)]) -> MarksByOrdinal {
        let mut marks = MarksByOrdinal::default();
        marks.add(of.iter().map(|(at, seq)| (*at, ReadRanges::new(*seq, Vec::new()).unwrap())).collect());
        marks
    }

    #[test]
    fn users_are_found_in_any_order_of_arrival() {
        let mut marks = marks(&[(7, 3), (2, 1)]);
        marks.add(vec![(4, ReadRanges::new(2, Vec::new()).unwrap())]);
        for (seq, expected) in [(1, vec![2, 4, 7]), (2, vec![4, 7]), (3, vec![7]), (4, vec![])] {
            let has_read = marks.have_read(seq);
            assert_eq!((0..10).filter(|at| has_read(*at)).collect::<Vec<_>>(), expected, "{seq}");
            let has_read = marks.have_read(seq);
            let some = [4, 5, 7].into_iter().filter(|at| has_read(*at)).collect::<Vec<_>>();
            assert_eq!(some, expected.into_iter().filter(|at| *at > 2).collect::<Vec<_>>(), "some, {seq}");
        }
        assert_eq!(marks.len(), 3);
    }

    #[test]
    fn only_users_who_are_not_in_it_are_missing() {
        let user = |at: usize| (at, UserId::new(i64::try_from(at + 1).unwrap()).unwrap());
        let marks = marks(&[(2, 1), (4, 1), (7, 1)]);
        let missing = marks.missing([0, 2, 3, 7, 9].map(user).to_vec());
        assert_eq!(missing, [0, 3, 9].map(user));
        assert_eq!(MarksByOrdinal::default().missing(vec![user(5)]), [user(5)]);
    }
}
