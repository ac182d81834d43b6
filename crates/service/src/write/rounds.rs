//! Work that a node repeats until it stops.

use std::{fmt::Display, future::Future, mem::replace, sync::Arc, time::Duration};

use kith_store::Coordination;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::lease::Lease;

/// Work that is done in rounds, by one node at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// The name of the lease.
    pub(crate) lease: &'static str,
    /// A few times as long as a step takes between two checks of the lease.
    pub(crate) lease_lasts: Duration,
    /// The longest time between two rounds. Some are closer, so that not all nodes ask at the same time.
    pub(crate) period: Duration,
    /// What the log says about the first round that fails after one that succeeded.
    pub(crate) failed: &'static str,
}

impl Rounds {
    /// Repeats this as long as it is polled, while this node has the lease. A round that takes longer than
    /// the lease checks it again. `node_id`: this node's id, if there are others.
    pub(crate) fn run<E: Display, F: AsyncFnMut(&mut Lease) -> Result<(), E>>(
        self,
        coordination: &Arc<dyn Coordination>,
        node_id: Option<&str>,
        mut round: F,
    ) -> impl Future<Output = ()> + use<E, F> {
        let mut lease = Lease::new(coordination, self.lease, node_id, self.lease_lasts);
        async move {
            let mut failures = FirstFailure::default();
            loop {
                // The store's watch reports a store that is away.
                if lease.is_held().await.unwrap_or(false)
                    && let Some(error) = failures.of(&round(&mut lease).await)
                {
                    tracing::warn!(%error, "{}; the next round tries again", self.failed);
                }
                sleep(self.period.mul_f64(rand::random_range(0.75..1.0))).await;
            }
        }
    }
}

/// Repeats this from now on, as long as it is polled. A late round delays the next rounds.
pub(crate) async fn every(period: Duration, mut round: impl AsyncFnMut()) {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        round().await;
    }
}

/// Whether a loop's last attempt has failed: the first failure after a success is logged, further failures
/// are not.
#[derive(Debug, Default)]
pub(crate) struct FirstFailure(bool);

impl FirstFailure {
    /// Takes an attempt's result. Returns its error, if the attempt before has succeeded.
    pub(crate) fn of<'a, T, E>(&mut self, attempt: &'a Result<T, E>) -> Option<&'a E> {
        let was_failing = replace(&mut self.0, attempt.is_err());
        attempt.as_ref().err().filter(|_| !was_failing)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use tokio::time::timeout;

    use super::*;
    use crate::sample::OneLease;

    #[tokio::test(start_paused = true)]
    async fn only_the_holder_of_the_lease_does_rounds() {
        let store: Arc<dyn Coordination> = Arc::new(OneLease::default());
        let lasts = Duration::from_secs(5);
        let work = Rounds { lease: "work", lease_lasts: lasts, period: Duration::from_secs(2), failed: "no" };
        let counts = [(); 2].map(|()| Rc::new(Cell::new(0)));
        let [a, b] = ["a", "b"].map(|node| {
            let count = Rc::clone(&counts[usize::from(node == "b")]);
            work.run(&store, Some(node), async move |_: &mut Lease| {
                count.set(count.get() + 1);
                Err("failed")
            })
        });
        timeout(Duration::from_secs(20), futures::future::join(a, b)).await.unwrap_err();
        assert!((10..=14).contains(&counts[0].get()), "after a failure it goes on: {counts:?}");
        assert_eq!(counts[1].get(), 0);
    }

    #[test]
    fn failure_after_a_success_is_the_first() {
        let mut failures = FirstFailure::default();
        let attempts = [Err(1), Err(2), Ok(()), Err(4)];
        assert_eq!(attempts.map(|attempt| failures.of(&attempt).copied()), [Some(1), None, None, Some(4)]);
    }
}
