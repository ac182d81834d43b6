//! The states that answers showed, by time: a record's rank, a follow's version, or a log's last number.

/// When answers first showed something newer than a state.
#[derive(Debug, Default)]
pub(super) struct ShownSince<R>(Vec<(R, u64)>);

/// The newest state that answers showed before a time.
#[derive(Debug, Default)]
pub(super) struct ShownUntil<R>(Vec<(u64, R)>);

impl<R: Ord + Copy> ShownSince<R> {
    /// Collects answers, each with its state and its time, in any order.
    pub(super) fn new(mut answers: Vec<(R, u64)>) -> Self {
        answers.sort_unstable();
        let mut first = u64::MAX;
        for (_, at) in answers.iter_mut().rev() {
            first = first.min(*at);
            *at = first;
        }
        Self(answers)
    }

    /// When a newer state was first shown. `None`: never.
    pub(super) fn newer_than(&self, state: R) -> Option<u64> {
        self.0.get(self.0.partition_point(|(shown, _)| *shown <= state)).map(|(_, at)| *at)
    }

    /// Returns how long a newer state had been shown at this time; 0 if none had.
    pub(super) fn age(&self, state: R, time: u64) -> u64 {
        self.newer_than(state).map_or(0, |since| time.saturating_sub(since))
    }
}

impl<R: Ord + Copy + Default> ShownUntil<R> {
    /// Collects answers, each with its state and its time, in any order.
    pub(super) fn new(answers: impl IntoIterator<Item = (R, u64)>) -> Self {
        let mut all: Vec<(u64, R)> = answers.into_iter().map(|(state, at)| (at, state)).collect();
        all.sort_unstable();
        let mut newest = R::default();
        for (_, state) in &mut all {
            newest = newest.max(*state);
            *state = newest;
        }
        Self(all)
    }

    /// The newest state that was shown before this time, else the default.
    pub(super) fn before(&self, time: u64) -> R {
        let shown = self.0.partition_point(|(at, _)| *at < time);
        shown.checked_sub(1).map_or_else(R::default, |last| self.0[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_earlier_answers_count() {
        let shown = ShownUntil::new([(5, 10), (9, 20)]);
        assert_eq!([10, 11, 20, 21].map(|time| shown.before(time)), [0, 5, 5, 9]);
    }

    #[test]
    fn newest_state_counts_not_last_answer() {
        assert_eq!(ShownUntil::new([(7, 10), (2, 20)]).before(30), 7);
    }
}
