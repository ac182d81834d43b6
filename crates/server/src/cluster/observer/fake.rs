//! Nodes with answers that a test sets, and the figures for the findings about them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::time::Instant;

use super::{
    ask::{Nodes, Peer, PeerCopy},
    findings::Findings,
};

type Script<T> = Box<dyn Fn(Duration) -> T + Send + Sync>;

/// Another node: its answer after a given time.
pub(super) struct FakePeer {
    begun: Instant,
    says: Script<Option<PeerCopy>>,
    asked: AtomicU64,
}

impl FakePeer {
    pub(super) fn new(says: impl Fn(Duration) -> Option<PeerCopy> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), says: Box::new(says), asked: AtomicU64::new(0) })
    }

    /// How often it was asked.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn say(&self) -> Option<PeerCopy> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        (self.says)(self.begun.elapsed())
    }
}

#[async_trait]
impl Peer for FakePeer {
    async fn canary(&self) -> Option<PeerCopy> {
        self.say()
    }

    async fn held(&self, _namespace: &str, _key: &str) -> Option<PeerCopy> {
        self.say()
    }
}

/// The answer from a node that trusts its memory.
#[expect(clippy::unnecessary_wraps, reason = "as a peer answers")]
pub(super) const fn holds(version: u64) -> Option<PeerCopy> {
    Some(PeerCopy { version: Some(version), trusted: true })
}

/// The answer from a node that knows that it is cut off.
#[expect(clippy::unnecessary_wraps, reason = "as a peer answers")]
pub(super) const fn cut_off_with(version: u64) -> Option<PeerCopy> {
    Some(PeerCopy { version: Some(version), trusted: false })
}

/// This node and the others.
pub(super) struct FakeNodes {
    begun: Instant,
    trusted: Script<bool>,
    peers: Vec<Arc<FakePeer>>,
}

impl FakeNodes {
    /// Makes nodes that are always connected.
    pub(super) fn new(peers: &[&Arc<FakePeer>]) -> Arc<Self> {
        Self::trusting(peers, |_| true)
    }

    pub(super) fn trusting(
        peers: &[&Arc<FakePeer>],
        trusted: impl Fn(Duration) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        let peers = peers.iter().map(|peer| Arc::clone(peer)).collect();
        Arc::new(Self { begun: Instant::now(), trusted: Box::new(trusted), peers })
    }
}

#[async_trait]
impl Nodes for FakeNodes {
    fn can_judge(&self) -> bool {
        (self.trusted)(self.begun.elapsed())
    }

    async fn others(&self) -> Vec<Arc<dyn Peer>> {
        self.peers.iter().map(|peer| -> Arc<dyn Peer> { Arc::<FakePeer>::clone(peer) }).collect()
    }
}

impl fmt::Debug for FakeNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeNodes")
    }
}

/// Findings and their metrics.
pub(super) struct ExportedFindings {
    pub(super) findings: Arc<Findings>,
    exported: PrometheusHandle,
}

impl ExportedFindings {
    pub(super) fn new(bound: Duration) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let findings =
            metrics::with_local_recorder(&recorder, || Arc::new(Findings::new(bound, Arc::default())));
        Self { findings, exported: recorder.handle() }
    }

    /// How many nodes answered at this age, and how many had an older copy.
    pub(super) fn at(&self, after: &str) -> (u64, u64) {
        let count = |name| self.value(&format!("kith_observer_{name}_total{{after=\"{after}\"}}"));
        (count("checked").unwrap_or(0), count("stale").unwrap_or(0))
    }

    /// How often a lag was recorded.
    pub(super) fn lags(&self) -> u64 {
        self.value("kith_observer_lag_seconds_count").unwrap_or(0)
    }

    pub(super) fn value(&self, sample: &str) -> Option<u64> {
        let text = self.exported.render();
        let value = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '))?;
        Some(value.parse().unwrap())
    }
}
