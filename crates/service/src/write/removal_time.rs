//! The time by which stored data are removed for good because of their age.
//!
//! It is a time in the store that rises with the time that ran, so a clock that is wrong, or that jumps,
//! removes nothing early. A node raises it to the present time, but at most `FASTER` times as fast as its
//! monotonic clock runs. Example: a machine starts with a clock that is 60 days ahead. The removal time then
//! reaches that clock after 60 hours instead of at once, `/readyz` has a remark from the first minute on, and
//! it falls back as soon as the clock is set right.

use std::{sync::Arc, time::Duration};

use kith_store::{Coordination, StoreError, Timestamp, clocks_agree};
use tokio::{sync::Mutex, time::Instant};

use super::lease::Lease;
use crate::metric::REMOVALS_BEHIND;

/// The name of the lease and of the mark.
const NAME: &str = "removal_time";
/// How long a node may take to write the mark.
const LEASE_LASTS: Duration = Duration::from_secs(5);
/// How often the mark is read and raised.
const READ_EVERY: Duration = Duration::from_secs(30);
/// How many times as fast as time runs it rises, until it has reached the present time: a day in an hour.
const FASTER: u32 = 24;
/// No time is older.
const NEVER: Timestamp = Timestamp(i64::MIN);

/// Reads and raises the removal time. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RemovalTime(Arc<Mutex<RemovalClock>>);

#[derive(Debug)]
struct RemovalClock {
    lease: Lease,
    /// The time by the last read or write, and when that was.
    known: Option<(Timestamp, Instant)>,
}

impl RemovalTime {
    /// The removal time for these nodes' data. `node_id`: this node's id, if there are others.
    #[must_use]
    pub fn new(coordination: &Arc<dyn Coordination>, node_id: Option<&str>) -> Self {
        metrics::gauge!(REMOVALS_BEHIND.name).set(0.0);
        let lease = Lease::new(coordination, NAME, node_id, LEASE_LASTS);
        Self(Arc::new(Mutex::new(RemovalClock { lease, known: None })))
    }

    /// The time before which old data end. Never after the present time.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        self.0.lock().await.time(Timestamp::now(), clocks_agree()).await
    }

    /// How far it is behind the present time, if that is known. Also brings its metric up to date.
    pub async fn behind(&self) -> Option<Duration> {
        let (time, at) = self.0.lock().await.known?;
        let behind = Timestamp::now().0.saturating_sub(time.after(at.elapsed()).0);
        let behind = Duration::from_millis(u64::try_from(behind).unwrap_or_default());
        metrics::gauge!(REMOVALS_BEHIND.name).set(behind.as_secs_f64());
        Some(behind)
    }
}

impl RemovalClock {
    /// The removal time at a present time, by a clock that agrees with the store's.
    async fn time(&mut self, present: Timestamp, agrees: bool) -> Result<Timestamp, StoreError> {
        if let Some((time, _)) = self.known.filter(|(_, at)| at.elapsed() < READ_EVERY) {
            return Ok(time.min(present));
        }
        let stored = self.lease.mark().await?.as_deref().and_then(parse);
        let known = self.known.map(|(time, at)| (time, at.elapsed()));
        let time = risen(stored, known, present, agrees);
        // Another node that writes it now has as good a time.
        if agrees && stored != Some(time) && self.lease.is_held().await? {
            self.lease.set_mark(&time.0.to_le_bytes()).await?;
        }
        self.known = Some((time, Instant::now()));
        Ok(time)
    }
}

/// The removal time after `stored`. `known`: an earlier read's time, and how long ago that was.
fn risen(
    stored: Option<Timestamp>,
    known: Option<(Timestamp, Duration)>,
    present: Timestamp,
    agrees: bool,
) -> Timestamp {
    let Some(stored) = stored else { return if agrees { present } else { NEVER } };
    let raised = known.filter(|_| agrees).map_or(stored, |(time, ran)| time.after(ran * FASTER));
    stored.max(raised).min(present)
}

fn parse(mark: &[u8]) -> Option<Timestamp> {
    Some(Timestamp(i64::from_le_bytes(mark.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::MarkedLease;

    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);
    const START: Timestamp = Timestamp(1_800_000_000_000);

    /// A node over a store, with a clock that tests set.
    struct Node(RemovalClock);

    impl Node {
        fn new(store: &Arc<MarkedLease>) -> Self {
            let store: Arc<dyn Coordination> = Arc::<MarkedLease>::clone(store);
            Self(RemovalClock { lease: Lease::new(&store, NAME, None, LEASE_LASTS), known: None })
        }

        async fn at(&mut self, present: Timestamp) -> Timestamp {
            self.0.time(present, true).await.unwrap()
        }

        /// Minutes pass, with a round in each. Returns the removal time after them.
        async fn run(&mut self, minutes: u32, mut present: Timestamp) -> Timestamp {
            let mut time = NEVER;
            for _ in 0..minutes {
                tokio::time::advance(MINUTE).await;
                present = present.after(MINUTE);
                time = self.at(present).await;
            }
            time
        }
    }

    #[tokio::test(start_paused = true)]
    async fn removal_time_is_present_while_clock_runs() {
        let store = Arc::default();
        let mut node = Node::new(&store);
        assert_eq!(node.at(START).await, START, "nothing was removed before");
        assert_eq!(node.run(60, START).await, START.after(HOUR));
    }

    #[tokio::test(start_paused = true)]
    async fn clock_60_days_ahead_rises_a_day_an_hour() {
        let store = Arc::default();
        Node::new(&store).at(START).await;
        let (mut restarted, wrong) = (Node::new(&store), START.after(60 * DAY));
        assert_eq!(restarted.at(wrong).await, START);
        assert_eq!(restarted.run(60, wrong).await, START.after(DAY));
        assert_eq!(restarted.run(1, START.after(HOUR)).await, START.after(HOUR + MINUTE), "set right");
    }

    #[tokio::test(start_paused = true)]
    async fn jump_of_a_running_clock_is_not_followed() {
        let store = Arc::default();
        let mut node = Node::new(&store);
        node.at(START).await;
        assert!(node.run(1, START.after(60 * DAY)).await <= START.after(24 * MINUTE));
    }

    #[tokio::test(start_paused = true)]
    async fn node_that_was_off_catches_up() {
        let store = Arc::default();
        Node::new(&store).at(START).await;
        let (mut node, later) = (Node::new(&store), START.after(DAY));
        assert_eq!(node.at(later).await, START);
        assert_eq!(node.run(70, later).await, later.after(70 * MINUTE));
    }

    #[tokio::test(start_paused = true)]
    async fn clock_that_disagrees_raises_nothing() {
        let store = Arc::default();
        let mut wrong = Node::new(&store);
        assert_eq!(wrong.0.time(START.after(60 * DAY), false).await.unwrap(), NEVER);
        Node::new(&store).at(START).await;
        for _ in 0..60 {
            tokio::time::advance(MINUTE).await;
            assert_eq!(wrong.0.time(START.after(60 * DAY), false).await.unwrap(), START);
        }
        tokio::time::advance(MINUTE).await;
        let behind = Timestamp(START.0 - 1);
        assert_eq!(wrong.0.time(behind, false).await.unwrap(), behind, "never after its own clock");
        assert_eq!(Node::new(&store).at(START).await, START, "which lowers nothing for others");
    }

    #[tokio::test(start_paused = true)]
    async fn two_nodes_raise_it_no_faster_than_one() {
        let store = Arc::default();
        let (mut a, mut b) = (Node::new(&store), Node::new(&store));
        let far = START.after(365 * DAY);
        a.at(START).await;
        b.at(far).await;
        for _ in 0..60 {
            tokio::time::advance(MINUTE).await;
            a.at(far).await;
            b.at(far).await;
        }
        assert!(b.at(far).await <= START.after(DAY));
    }
}
