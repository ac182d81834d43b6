use super::records::Rank;

/// From when on answers told that a record had come so far.
#[derive(Debug)]
pub(super) struct Since(Vec<(Rank, u64)>);

impl Since {
    /// Of answers, each with what it told and when it came, in any order.
    pub(super) fn new(mut answers: Vec<(Rank, u64)>) -> Self {
        answers.sort_unstable();
        let mut first = u64::MAX;
        for (_, at) in answers.iter_mut().rev() {
            first = first.min(*at);
            *at = first;
        }
        Self(answers)
    }

    /// When something newer than this was first told of. `None`: never.
    pub(super) fn newer_than(&self, rank: Rank) -> Option<u64> {
        self.0.get(self.0.partition_point(|(told, _)| *told <= rank)).map(|(_, at)| *at)
    }
}
