//! The bus that orders record changes and carries them between nodes. `LocalBus` serves single-node mode; a
//! cluster publishes through the log in the shared server.

use std::{
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{Node, Position, Version, remote::Cell};

/// A change of one record, as nodes publish it to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// Namespace of the record.
    pub namespace: &'static str,
    /// Text of its key.
    pub key: String,
    /// Its present version; `None`: unknown, so that every copy is dropped.
    pub version: Option<Version>,
    /// The cell that the shared tier may hold from now on, of exactly that version; `None`: only the change
    /// is known. It is not sent to other nodes.
    pub copy: Option<Cell>,
}

impl Invalidation {
    /// Returns the change without its copy, as it is sent to other nodes.
    pub(crate) fn without_copy(&self) -> Self {
        Self { namespace: self.namespace, key: self.key.clone(), version: self.version, copy: None }
    }
}

/// When a change counts as published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// When it is published, or queued for publication.
    Published,
    /// When no node can decide by the previous value any more.
    Confirmed,
}

/// Orders record changes and carries them between nodes. Carries no values.
///
/// A bus with other nodes passes their changes to [`Node::apply`] in the order of their numbers, and calls
/// [`Node::adopt`] with the last number whenever it cannot prove that it missed none.
#[async_trait::async_trait]
pub trait Bus: fmt::Debug + Send + Sync + 'static {
    /// Number of the last change before this node started.
    fn baseline(&self) -> u64 {
        0
    }

    /// Numbers these changes, publishes them and returns their position. The calling node has already applied
    /// them. When the call returns, a bus without a receive loop has also reported the position to the node
    /// ([`Node::reach`]).
    ///
    /// # Errors
    /// If the changes were certainly not published, or it is unknown whether they were. They are published
    /// later if possible.
    async fn publish(
        &self,
        node: &Node,
        changes: &[Invalidation],
        acknowledge: Acknowledge,
    ) -> Result<Position, BusError>;
}

/// Why a bus did not accept changes.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the bus did not take the change")]
pub struct BusError(#[source] Arc<dyn Error + Send + Sync>);

impl BusError {
    /// Wraps the error of a driver.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

/// The bus of a node without peers: it counts 1, 2, 3, ..., and every change is applied when it gets its
/// number.
#[derive(Debug, Default)]
pub struct LocalBus(AtomicU64);

impl LocalBus {
    /// Creates a bus whose numbers start at 0.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }
}

#[async_trait::async_trait]
impl Bus for LocalBus {
    async fn publish(
        &self,
        node: &Node,
        _changes: &[Invalidation],
        _acknowledge: Acknowledge,
    ) -> Result<Position, BusError> {
        let number = self.0.fetch_add(1, Ordering::AcqRel) + 1;
        node.reach(number);
        Ok(Position { partition: 0, epoch: node.epoch(), number })
    }
}
