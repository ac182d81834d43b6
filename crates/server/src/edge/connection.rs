//! What one connection has of the node.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::unread::Unread;

/// What one connection has of the node: answers that its peer has not read, and streams of health and of reflection.
///
/// Those streams pass no gate, so they have bounds of their own: of the node, and of each connection, so that one connection
/// cannot take the places of all others. To a client of gRPC a health watch that is refused is an unhealthy node.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) unread: Arc<Unread>,
    watches: Arc<Semaphore>,
}

/// How many streams of health and of reflection may be open.
#[derive(Debug)]
pub(super) struct WatchLimits {
    node: Arc<Semaphore>,
    per_connection: usize,
}

/// The place of one such stream, until dropped: of the node, and of its connection if it has one.
#[derive(Debug)]
pub(super) struct WatchPlace {
    _node: OwnedSemaphorePermit,
    _connection: Option<OwnedSemaphorePermit>,
}

impl WatchLimits {
    pub(super) fn new(node: usize, per_connection: usize) -> Self {
        Self { node: semaphore(node), per_connection }
    }

    /// A new connection with these answers.
    pub(super) fn connection(&self, unread: Arc<Unread>) -> Arc<Connection> {
        Arc::new(Connection { unread, watches: semaphore(self.per_connection) })
    }

    /// A place for a stream of this connection, or of a caller within the process; `None`: there is none.
    pub(super) fn enter(&self, connection: Option<&Connection>) -> Option<WatchPlace> {
        let of_connection = match connection {
            Some(connection) => Some(Arc::clone(&connection.watches).try_acquire_owned().ok()?),
            None => None,
        };
        let node = Arc::clone(&self.node).try_acquire_owned().ok()?;
        Some(WatchPlace { _node: node, _connection: of_connection })
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
        let connection = || limits.connection(NodeUnread::new(1, 1).connection());
        let (one, other, third) = (connection(), connection(), connection());
        let mut places: Vec<_> = (0..2).map(|_| limits.enter(Some(&one)).unwrap()).collect();
        assert!(limits.enter(Some(&one)).is_none(), "the connection has as many as it may");
        places.extend((0..2).map(|_| limits.enter(Some(&other)).unwrap()));
        places.push(limits.enter(Some(&third)).unwrap());
        assert!(limits.enter(Some(&third)).is_none(), "the node has as many as it may");
        places.remove(0);
        assert!(limits.enter(Some(&third)).is_some(), "a refusal keeps no place of the connection");
    }
}
