//! The canary in a namespace without broadcasts: checks that copies keep their longest age on the way through
//! Redis and memory, as counts and presence must.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::{
    ask::Nodes,
    findings::{AGES, Findings},
};

/// The namespace for the canary without broadcasts.
pub(super) const AGED: &str = "canary_aged";
/// The longest age that its copies reach.
pub(super) const AGE_MAX: Duration = Duration::from_secs(9);
/// Pause between two checks.
const EVERY: Duration = Duration::from_secs(2);
/// A write with this age must be visible. Includes a second for delays.
const AFTER: Duration = AGES[1];

/// The canary reads on this node. `None`: no answer.
#[async_trait]
pub(super) trait CanaryReads: fmt::Debug + Send + Sync {
    /// A version that was written.
    async fn current(&self) -> Option<u64>;

    /// The version in a copy that is at most [`AGE_MAX`] old.
    async fn aged(&self) -> Option<u64>;
}

/// Checks, and counts copies that are too old, until it is dropped.
pub(super) async fn follow(canaries: Arc<dyn CanaryReads>, nodes: Arc<dyn Nodes>, findings: Arc<Findings>) {
    let mut seen = VecDeque::new();
    loop {
        sleep(EVERY).await;
        if !nodes.can_judge() {
            // Redis may keep copies that it cannot replace. Earlier reads prove nothing about later copies.
            seen.clear();
            continue;
        }
        // Correct copies are not counted: alerts use the check count to decide whether nodes receive each
        // other's changes.
        if is_stale(&*canaries, &mut seen).await == Some(true) {
            findings.checked(AFTER, true);
            findings.log_stale(AGED, AFTER, 1);
        }
    }
}

/// Whether the copy lacks a version that this node had read before its longest age; `None`: unknown yet.
/// `seen`: the read versions with their times, in order.
async fn is_stale(canaries: &dyn CanaryReads, seen: &mut VecDeque<(Instant, u64)>) -> Option<bool> {
    let began = Instant::now();
    let held = canaries.aged().await;
    while seen.get(1).is_some_and(|(at, _)| *at + AFTER <= began) {
        seen.pop_front();
    }
    let before = seen.front().filter(|(at, _)| *at + AFTER <= began).map(|(_, version)| *version);
    if let Some(version) = canaries.current().await {
        seen.push_back((Instant::now(), version));
    }
    Some(held? < before?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::observer::fake::{ExportedFindings, FakeNodes};

    /// A canary that is written every second. Its copies have this age.
    #[derive(Debug)]
    struct Aged {
        begun: Instant,
        age: Duration,
    }

    #[async_trait]
    impl CanaryReads for Aged {
        async fn current(&self) -> Option<u64> {
            Some(self.begun.elapsed().as_secs())
        }

        async fn aged(&self) -> Option<u64> {
            Some(self.begun.elapsed().saturating_sub(self.age).as_secs())
        }
    }

    /// The checks counted in a minute, and how many found the copy too old.
    async fn found(age: Duration) -> (u64, u64) {
        found_by(age, FakeNodes::new(&[])).await
    }

    /// Like [`found`], but on a node that is not always connected.
    async fn found_by(age: Duration, nodes: Arc<FakeNodes>) -> (u64, u64) {
        let found = ExportedFindings::new(Duration::from_secs(3));
        let canaries = Arc::new(Aged { begun: Instant::now(), age });
        let following = tokio::spawn(follow(canaries, nodes, Arc::clone(&found.findings)));
        sleep(Duration::from_secs(61)).await;
        following.abort();
        found.at("10s")
    }

    #[tokio::test(start_paused = true)]
    async fn copies_within_their_age_count_as_no_check() {
        assert_eq!(found(AGE_MAX).await, (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn copies_beyond_their_age_are_stale() {
        let (checked, stale) = found(Duration::from_secs(30)).await;
        assert!(checked > 20 && stale == checked, "{checked} {stale}");
    }

    #[tokio::test(start_paused = true)]
    async fn aged_copies_are_not_judged_in_an_outage() {
        let cut = FakeNodes::trusting(&[], |_| false);
        assert_eq!(found_by(Duration::from_secs(30), cut).await, (0, 0));
        let back = FakeNodes::trusting(&[], |passed| passed > Duration::from_secs(50));
        let (checked, stale) = found_by(Duration::from_secs(30), back).await;
        assert_eq!((checked, stale), (0, 0), "10 s after the outage nothing is known yet");
    }
}
