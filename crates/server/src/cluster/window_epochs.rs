//! The epoch for windows, sequences and inboxes.

use async_trait::async_trait;
use kith_cache::remote::ClusterNode;
use kith_delivery::EpochSource;
use kith_store::Epoch;

/// The epoch in which this node trusts its memory.
#[derive(Clone, Debug)]
pub(super) struct WindowEpochs(pub(super) ClusterNode);

#[async_trait]
impl EpochSource for WindowEpochs {
    fn followed_epoch(&self) -> Option<Epoch> {
        let (number, server) = self.0.bus.confirmations.trusted(&self.0.node)?;
        Some(Epoch { number, server })
    }

    async fn settled_epoch(&self) -> Option<u64> {
        let (present, _) = self.0.bus.epochs.current().await.ok()?;
        self.0.bus.confirmations.earlier_epochs_ended(present).await;
        Some(present)
    }
}
