//! The epoch in which a node works.

use std::fmt;

use async_trait::async_trait;
use kith_store::Epoch;

/// The epoch for windows, inboxes and sequences. Data in one epoch is not visible in another.
#[async_trait]
pub trait EpochSource: Send + Sync + fmt::Debug + 'static {
    /// The epoch that this node follows, with its server's name. `None`: the node has no proof, within the
    /// time for which it trusts its memory, that this epoch is present; windows are not used then.
    fn followed_epoch(&self) -> Option<Epoch>;

    /// Reads the present epoch's number from the store, after this call began, and returns it once no node
    /// can use windows from an earlier epoch. `None`: the store does not answer, or a node may still use an
    /// earlier epoch.
    ///
    /// Releasing a held window depends on it: a later epoch's window was filled after the read, and so after
    /// the change.
    async fn settled_epoch(&self) -> Option<u64>;
}
