//! Tracks the node's resources that one connection holds.

use std::sync::Arc;

use kith_service::message::ConnectionSigns;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::unread::ConnectionUnread;
use crate::places::{HeldPlace, PlaceKind, Places, RemotePeer};

/// One connection's share of the node: answers that its peer has not read, and health and reflection streams.
///
/// Those streams pass no gate, so they have their own bounds for the node and for each connection: one
/// connection cannot take the permits of all others. To a gRPC client, a refused health watch is an unhealthy
/// node.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) unread: Arc<ConnectionUnread>,
    pub(super) peer: Arc<RemotePeer>,
    /// When the peer is heard, over HTTP/2.
    pub(super) signs: Option<Arc<ConnectionSigns>>,
    watches: Arc<Semaphore>,
}

/// How many health and reflection streams may be open.
#[derive(Debug)]
pub(super) struct WatchLimits {
    node: Arc<Places>,
    per_connection: usize,
}

/// The permit for one such stream, until dropped: from the node, and from its connection if it has one.
#[derive(Debug)]
pub(super) struct WatchPermit {
    node: HeldPlace,
    _connection: Option<OwnedSemaphorePermit>,
}

impl WatchLimits {
    pub(super) fn new(node: usize, per_connection: usize) -> Self {
        Self { node: Places::new(PlaceKind::HealthWatches, node), per_connection }
    }

    /// A new connection with these answers, from this peer, which is heard over HTTP/2 by its `signs`.
    pub(super) fn connection(
        &self,
        unread: Arc<ConnectionUnread>,
        peer: Arc<RemotePeer>,
        signs: Option<Arc<ConnectionSigns>>,
    ) -> Arc<Connection> {
        Arc::new(Connection { unread, peer, signs, watches: semaphore(self.per_connection) })
    }

    /// A permit for a stream on this connection, or for a caller within the process. `None`: the limit is
    /// reached.
    pub(super) fn acquire(&self, connection: Option<&Connection>) -> Option<WatchPermit> {
        let Some(connection) = connection else {
            let (node, _) = self.node.take(&RemotePeer::internal()).ok()?;
            return Some(WatchPermit { node, _connection: None });
        };
        let of_connection = Arc::clone(&connection.watches).try_acquire_owned().ok()?;
        let (node, _) = self.node.take(&connection.peer).ok()?;
        Some(WatchPermit { node, _connection: Some(of_connection) })
    }
}

impl WatchPermit {
    /// Cancelled when the stream has to give way to another peer's stream.
    pub(super) const fn displaced(&self) -> &CancellationToken {
        self.node.displaced()
    }
}

fn semaphore(most: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::unread::NodeUnread;

    #[test]
    fn connection_limit_ends_before_the_node_limit() {
        let limits = WatchLimits::new(5, 2);
        let connection =
            || limits.connection(NodeUnread::new(1, 1).connection(), RemotePeer::internal(), None);
        let (one, other, third) = (connection(), connection(), connection());
        let mut permits: Vec<_> = (0..2).map(|_| limits.acquire(Some(&one)).unwrap()).collect();
        assert!(limits.acquire(Some(&one)).is_none(), "the connection has as many as it may");
        permits.extend((0..2).map(|_| limits.acquire(Some(&other)).unwrap()));
        permits.push(limits.acquire(Some(&third)).unwrap());
        assert!(limits.acquire(Some(&third)).is_none(), "the node has as many as it may");
        permits.remove(0);
        assert!(limits.acquire(Some(&third)).is_some(), "a refusal keeps no permit of the connection");
    }
}
