/// The highest version that answers showed until a time.
#[derive(Debug, Default)]
pub(super) struct Until(Vec<(u64, u64)>);

impl Until {
    /// From versions, each with the time of its answer, in any order.
    pub(super) fn new(told: &[(u64, u64)]) -> Self {
        let mut all: Vec<(u64, u64)> = told.iter().map(|(version, at)| (*at, *version)).collect();
        all.sort_unstable();
        let mut most = 0;
        for (_, version) in &mut all {
            most = most.max(*version);
            *version = most;
        }
        Self(all)
    }

    /// 0: none.
    pub(super) fn before(&self, time: u64) -> u64 {
        let told = self.0.partition_point(|(at, _)| *at < time);
        told.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}
