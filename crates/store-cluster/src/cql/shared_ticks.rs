//! Pauses whose ends coincide.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

/// The period of the tasks that look for new notes.
pub(in crate::cql) const TICK: Duration = Duration::from_millis(250);

/// Sleeps until the next multiple of this period since the first call in this process. Tasks with the same
/// period wake together: at rest, most of a node's work is to wake.
pub(in crate::cql) async fn until_next(period: Duration) {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    tokio::time::sleep(period - rest(BEGUN.elapsed(), period)).await;
}

/// The time since the last multiple of this period.
fn rest(passed: Duration, period: Duration) -> Duration {
    let rest = passed.as_nanos() % period.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(rest).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_is_below_the_period() {
        let of = |passed| rest(Duration::from_millis(passed), Duration::from_millis(250)).as_millis();
        assert_eq!([0, 1, 249, 250, 251, 1_100].map(of), [0, 1, 249, 0, 1, 100]);
    }
}
