//! The observer's metrics and log lines. Every stale copy is counted, but at most one line is logged in 10 s.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kith_service::metric::{OBSERVER_CHECKED, OBSERVER_LAG, OBSERVER_STALE};
use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Least time between two log lines about stale copies; the metric counts every copy.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// The ages at which a write is checked.
pub(super) const AGES: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];

/// An old copy is a defect once the write has this age.
const DEFECT: Duration = AGES[1];

/// Counts checks of writes that are so old that every node must return them.
#[derive(Debug, Default)]
pub(crate) struct ObserverCounts {
    checked: AtomicU64,
    stale: AtomicU64,
}

impl ObserverCounts {
    /// Nodes that answered since the start, and how many of these trusted their memory and had an older copy.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.checked.load(Ordering::Relaxed), self.stale.load(Ordering::Relaxed))
    }

    fn add(&self, stale: bool) {
        self.checked.fetch_add(1, Ordering::Relaxed);
        self.stale.fetch_add(u64::from(stale), Ordering::Relaxed);
    }
}

/// Counts findings, and logs stale copies. Metrics go to the recorder that is installed when it is created.
#[derive(Debug)]
pub(super) struct Findings {
    lag: Histogram,
    of_ages: Vec<AgeCounters>,
    observed: Arc<ObserverCounts>,
    logged: Mutex<Option<Instant>>,
}

/// The figures for writes at one age.
#[derive(Debug)]
struct AgeCounters {
    after: Duration,
    checked: Counter,
    stale: Counter,
}

impl Findings {
    /// Creates it empty. `bound`: the age at which every node must return the canary. Defects are counted in
    /// `observed`, too.
    pub(super) fn new(bound: Duration, observed: Arc<ObserverCounts>) -> Self {
        let of_ages = AGES.into_iter().chain([bound]).map(AgeCounters::new).collect();
        Self { lag: histogram!(OBSERVER_LAG.name), of_ages, observed, logged: Mutex::new(None) }
    }

    /// Records the time in which a node returned the canary.
    pub(super) fn lag(&self, lag: Duration) {
        self.lag.record(lag.as_secs_f64());
    }

    /// Records a node's answer about a write at this age.
    pub(super) fn checked(&self, after: Duration, stale: bool) {
        let Some(of_age) = self.of_ages.iter().find(|of_age| of_age.after == after) else { return };
        if after >= DEFECT {
            self.observed.add(stale);
        }
        of_age.checked.increment(1);
        if stale {
            of_age.stale.increment(1);
        }
    }

    /// Logs that this many nodes have a copy that is too old, unless it was logged recently.
    pub(super) fn log_stale(&self, namespace: &str, after: Duration, nodes: usize) {
        if nodes > 0 && self.may_log() {
            tracing::warn!(namespace, ?after, nodes, "nodes hold a copy that is older than it may be");
        }
    }

    /// Whether nothing was logged for a while; the caller logs something now.
    fn may_log(&self) -> bool {
        let mut logged = self.logged.lock();
        let due = logged.is_none_or(|at| at.elapsed() >= LOGGED_EVERY);
        if due {
            *logged = Some(Instant::now());
        }
        due
    }
}

impl AgeCounters {
    fn new(after: Duration) -> Self {
        // humantime would write a minute another way.
        let label = format!("{}s", after.as_secs_f64());
        Self {
            after,
            checked: counter!(OBSERVER_CHECKED.name, "after" => label.clone()),
            stale: counter!(OBSERVER_STALE.name, "after" => label),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::observer::fake::ExportedFindings;

    #[tokio::test(start_paused = true)]
    async fn stale_copies_are_logged_once_in_10_s() {
        let findings = Findings::new(Duration::from_secs(3), Arc::default());
        assert!(findings.may_log() && !findings.may_log());
        tokio::time::advance(LOGGED_EVERY - Duration::from_millis(1)).await;
        assert!(!findings.may_log());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(findings.may_log());
    }

    #[test]
    fn every_age_has_its_own_counter_from_start() {
        let found = ExportedFindings::new(Duration::from_millis(2_500));
        assert_eq!(found.value("kith_observer_stale_total{after=\"60s\"}"), Some(0));
        found.findings.checked(Duration::from_millis(2_500), true);
        found.findings.checked(AGES[2], false);
        assert_eq!(
            ["1s", "2.5s", "10s", "60s"].map(|after| found.at(after)),
            [(0, 0), (1, 1), (0, 0), (1, 0)]
        );
        found.findings.checked(AGES[1], true);
        assert_eq!(found.findings.observed.totals(), (2, 1), "what may still be on its way is no defect");
    }
}
