/// Since when answers showed that something had come so far: a record to a rank, a log to a number.
#[derive(Debug)]
pub(super) struct Since<R>(Vec<(R, u64)>);

impl<R: Ord + Copy> Since<R> {
    /// From answers, each with its value and its time, in any order.
    pub(super) fn new(mut answers: Vec<(R, u64)>) -> Self {
        answers.sort_unstable();
        let mut first = u64::MAX;
        for (_, at) in answers.iter_mut().rev() {
            first = first.min(*at);
            *at = first;
        }
        Self(answers)
    }

    /// When something newer than this was first answered. `None`: never.
    pub(super) fn newer_than(&self, rank: R) -> Option<u64> {
        self.0.get(self.0.partition_point(|(told, _)| *told <= rank)).map(|(_, at)| *at)
    }
}
