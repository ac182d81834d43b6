use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::sleep;

/// The nodes of a cluster, as an observer asks them.
#[async_trait]
pub(super) trait Nodes: fmt::Debug + Send + Sync {
    /// Whether this node hears and is heard. While it is not, what others hold says nothing about them.
    fn trusted(&self) -> bool;

    /// The others that can be reached now, in no order; none while the registry does not answer.
    async fn others(&self) -> Vec<Arc<dyn Peer>>;
}

/// Another node.
#[async_trait]
pub(super) trait Peer: Send + Sync {
    /// What a cached read of the canary gives there. `None`: no answer in time.
    async fn canary(&self) -> Option<Held>;

    /// The copy of a record in its memory, which may be served; nothing is read or filled. `None`: no answer in
    /// time.
    async fn held(&self, namespace: &str, key: &str) -> Option<Held>;
}

/// What a node said that it holds of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Version of its copy; 0 for one without. `None`: it holds none.
    pub(super) version: Option<u64>,
    /// Whether it serves from its memory now.
    pub(super) trusted: bool,
}

impl Held {
    pub(super) fn is_older_than(self, version: u64) -> bool {
        self.version.is_some_and(|held| held < version)
    }
}

/// Whether what was held is older than it may be; `None` where that cannot be said. A node that is cut off serves
/// its memory for a moment, which it may: an old copy counts only if the node that held it trusts its memory one
/// such moment later still, and so does the one that wrote.
pub(super) async fn is_stale(
    nodes: &dyn Nodes,
    held: Held,
    version: u64,
    trust: Duration,
    again: impl Future<Output = Option<Held>>,
) -> Option<bool> {
    if !held.trusted || !nodes.trusted() {
        return None;
    }
    if !held.is_older_than(version) {
        return Some(false);
    }
    sleep(trust).await;
    let later = again.await?;
    (later.trusted && nodes.trusted()).then_some(true)
}
