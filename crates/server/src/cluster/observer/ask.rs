use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::sleep;

/// A cluster's nodes, for an observer.
#[async_trait]
pub(super) trait Nodes: fmt::Debug + Send + Sync {
    /// Whether this node is connected in both directions, and has published all its changes. While it is not,
    /// neither other nodes' copies nor its own prove anything.
    fn can_judge(&self) -> bool;

    /// The other nodes that can be reached now, in no order; none while the registry does not answer.
    async fn others(&self) -> Vec<Arc<dyn Peer>>;
}

#[async_trait]
pub(super) trait Peer: Send + Sync {
    /// Reads the canary there through the caches. `None`: no answer in time.
    async fn canary(&self) -> Option<PeerCopy>;

    /// The copy of a record in the node's memory, if it may be served. Nothing is read or filled. `None`: no
    /// answer in time.
    async fn held(&self, namespace: &str, key: &str) -> Option<PeerCopy>;
}

/// A node's answer about its copy of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerCopy {
    /// Its copy's version; 0 for a copy without a version. `None`: no copy.
    pub(super) version: Option<u64>,
    /// Whether it serves from its memory now.
    pub(super) trusted: bool,
}

impl PeerCopy {
    pub(super) fn is_older_than(self, version: u64) -> bool {
        self.version.is_some_and(|held| held < version)
    }
}

/// Whether the copy is older than allowed; `None`: unknown. A node that is cut off may serve its memory for a
/// moment: an old copy counts only if its node, and the writer, still trust their memory after that time.
pub(super) async fn is_stale(
    nodes: &dyn Nodes,
    held: PeerCopy,
    version: u64,
    trust: Duration,
    again: impl Future<Output = Option<PeerCopy>>,
) -> Option<bool> {
    if !held.trusted || !nodes.can_judge() {
        return None;
    }
    if !held.is_older_than(version) {
        return Some(false);
    }
    sleep(trust).await;
    let later = again.await?;
    (later.trusted && nodes.can_judge()).then_some(true)
}
