//! The canary check: one node writes a record, and measures how long the other nodes take to return the new
//! version.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    ask::{Nodes, Peer, PeerCopy, is_stale},
    findings::Findings,
};

/// How long to pause between two canary reads on a node.
const POLL: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// The record that is written only to be observed.
#[async_trait]
pub(super) trait Canary: fmt::Debug + Send + Sync {
    /// Acquires the writer's lease, unless another node has it. Returns the lease's holder; `None` also while
    /// the store does not answer.
    async fn acquire_lease(&self) -> Option<String>;

    /// Writes it, if the lease is still held. Returns its version after the write is acknowledged and
    /// published; `None` if either is unknown.
    async fn write(&self, lease: String) -> Option<u64>;
}

/// A node's time limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct CanaryBounds {
    /// How long a node may take to return the canary.
    pub(super) shown: Duration,
    /// How long a node may take to detect that it is cut off.
    pub(super) trust: Duration,
}

/// Writes the canary, if its lease is free, and measures how long the others take to return it. False:
/// another node has the lease, or nothing can be measured now.
pub(super) async fn check(
    canary: &dyn Canary,
    nodes: &dyn Nodes,
    findings: &Findings,
    bounds: CanaryBounds,
) -> bool {
    if !nodes.can_judge() {
        return false;
    }
    let Some(lease) = canary.acquire_lease().await else { return false };
    // A read before the write gives each node a copy, which must be invalidated.
    let others = nodes.others().await;
    let asked = others.into_iter().map(|peer| async { peer.canary().await.map(|_| peer) });
    let others: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
    if others.is_empty() {
        return true;
    }
    let Some(version) = canary.write(lease).await else { return true };
    let written = Instant::now();
    let checks = others.iter().map(|peer| check_peer(nodes, peer, findings, version, written, bounds));
    let stale = join_all(checks).await.into_iter().filter(|stale| *stale).count();
    findings.log_stale(super::CANARIES, bounds.shown, stale);
    true
}

/// Reads from one node until it returns the version, and counts the result. Returns whether it failed to
/// return it.
async fn check_peer(
    nodes: &dyn Nodes,
    peer: &Arc<dyn Peer>,
    findings: &Findings,
    version: u64,
    written: Instant,
    bounds: CanaryBounds,
) -> bool {
    let stale = match time_until_shown(&**peer, version, written, bounds.shown).await {
        Ok(lag) => {
            findings.lag(lag);
            Some(false)
        }
        Err(Some(last)) => is_stale(nodes, last, version, bounds.trust, peer.canary()).await,
        Err(None) => None,
    };
    if let Some(stale) = stale {
        findings.checked(bounds.shown, stale);
    }
    stale == Some(true)
}

/// The time until the node returns the version.
///
/// # Errors
/// Its last answer, if it was within the bound and lacked the version.
async fn time_until_shown(
    peer: &dyn Peer,
    version: u64,
    written: Instant,
    bound: Duration,
) -> Result<Duration, Option<PeerCopy>> {
    let (until, mut pause) = (written + bound, POLL.0);
    loop {
        let last = timeout_at(until, peer.canary()).await.ok().flatten();
        if last.is_some_and(|held| !held.is_older_than(version)) {
            return Ok(written.elapsed());
        }
        if Instant::now() + pause >= until {
            return Err(last);
        }
        sleep(pause).await;
        pause = (pause * 2).min(POLL.1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::cluster::observer::fake::{ExportedFindings, FakeNodes, FakePeer, cut_off_with, holds};

    const BOUNDS: CanaryBounds =
        CanaryBounds { shown: Duration::from_secs(3), trust: Duration::from_millis(1_500) };

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Written once a check. Has version 2 from the first check on.
    #[derive(Debug)]
    struct FakeCanary {
        free: bool,
        acknowledged: bool,
        written: AtomicU64,
    }

    impl FakeCanary {
        const fn new() -> Self {
            Self { free: true, acknowledged: true, written: AtomicU64::new(0) }
        }

        fn written(&self) -> u64 {
            self.written.load(Ordering::Relaxed)
        }
    }

    #[async_trait]
    impl Canary for FakeCanary {
        async fn acquire_lease(&self) -> Option<String> {
            self.free.then(|| "lease".to_owned())
        }

        async fn write(&self, _turn: String) -> Option<u64> {
            let version = self.written.fetch_add(1, Ordering::Relaxed) + 2;
            self.acknowledged.then_some(version)
        }
    }

    /// The findings from a check on these nodes.
    async fn found(peers: &[&Arc<FakePeer>]) -> ExportedFindings {
        let found = ExportedFindings::new(BOUNDS.shown);
        let nodes = FakeNodes::new(peers);
        assert!(check(&FakeCanary::new(), &*nodes, &found.findings, BOUNDS).await);
        found
    }

    #[tokio::test(start_paused = true)]
    async fn canary_within_the_bound_is_timed_not_stale() {
        let at_once = FakePeer::new(|_| holds(2));
        let late = FakePeer::new(|passed| holds(if passed < ms(2_900) { 1 } else { 2 }));
        let found = found(&[&at_once, &late]).await;
        assert_eq!((found.lags(), found.at("3s")), (2, (2, 0)));
        assert_eq!(at_once.asked(), 2, "once before the write and once after it");
    }

    #[tokio::test(start_paused = true)]
    async fn node_with_the_old_canary_is_stale() {
        let (old, right) = (FakePeer::new(|_| holds(1)), FakePeer::new(|_| holds(2)));
        let found = found(&[&old, &right]).await;
        assert_eq!((found.lags(), found.at("3s")), (1, (2, 1)));
        assert!(old.asked() < 100, "it is asked {} times", old.asked());
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_goes_or_is_cut_off_is_not_counted() {
        let gone = FakePeer::new(|_| None);
        let went = FakePeer::new(|passed| if passed < ms(1) { holds(1) } else { None });
        let cut = FakePeer::new(|_| cut_off_with(1));
        let cut_late = FakePeer::new(|passed| if passed < ms(4_000) { holds(1) } else { cut_off_with(1) });
        let found = found(&[&gone, &went, &cut, &cut_late]).await;
        assert_eq!((found.lags(), found.at("3s")), (0, (0, 0)));
        assert_eq!(gone.asked(), 1, "who does not answer is not asked again");
    }

    #[tokio::test(start_paused = true)]
    async fn canary_needs_peers_a_lease_and_trust() {
        let found = ExportedFindings::new(BOUNDS.shown);
        let peer = FakePeer::new(|_| holds(1));
        let canary = FakeCanary::new();
        let alone = check(&canary, &*FakeNodes::new(&[]), &found.findings, BOUNDS).await;
        let cut = FakeNodes::trusting(&[&peer], |_| false);
        let cut = check(&canary, &*cut, &found.findings, BOUNDS).await;
        let taken = FakeCanary { free: false, ..FakeCanary::new() };
        let another = check(&taken, &*FakeNodes::new(&[&peer]), &found.findings, BOUNDS).await;
        assert_eq!((alone, cut, another), (true, false, false));
        assert_eq!((canary.written(), taken.written(), peer.asked()), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn unpublished_canary_is_not_checked() {
        let found = ExportedFindings::new(BOUNDS.shown);
        let peer = FakePeer::new(|_| holds(1));
        let unpublished = FakeCanary { acknowledged: false, ..FakeCanary::new() };
        check(&unpublished, &*FakeNodes::new(&[&peer]), &found.findings, BOUNDS).await;
        assert_eq!((unpublished.written(), peer.asked(), found.at("3s")), (1, 1, (0, 0)));
    }

    #[tokio::test(start_paused = true)]
    async fn observer_cut_off_meanwhile_blames_no_node() {
        let found = ExportedFindings::new(BOUNDS.shown);
        let peer = FakePeer::new(|_| holds(1));
        let nodes = FakeNodes::trusting(&[&peer], |passed| passed < ms(4_000));
        check(&FakeCanary::new(), &*nodes, &found.findings, BOUNDS).await;
        assert_eq!(found.at("3s"), (0, 0));
    }
}
