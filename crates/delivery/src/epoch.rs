//! The epoch in which a node works.

use std::fmt;

use async_trait::async_trait;
use kith_store::Epoch;

/// The epoch of windows, inboxes and sequences. Those of one epoch are not visible in another one.
#[async_trait]
pub trait EpochSource: Send + Sync + fmt::Debug + 'static {
    /// The epoch that this node follows, with the name of its server. `None`: the node has no proof, within the time for which
    /// it trusts its memory, that this epoch is the present one; windows are not used then.
    fn followed_epoch(&self) -> Option<Epoch>;

    /// Reads the number of the present epoch from the store, after this call began, and returns it once no node can use windows
    /// of an earlier epoch. `None`: the store does not answer, or a node may still use an earlier one.
    ///
    /// The release of a held window depends on it: a window of a later epoch was filled after the read, and so after the change.
    async fn settled_epoch(&self) -> Option<u64>;
}
