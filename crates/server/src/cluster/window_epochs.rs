use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{
    Node,
    remote::{Epochs as _, PeerConfirmations},
};
use kith_delivery::EpochSource;
use kith_store::Epoch;

use super::StoreEpochs;

/// The epoch of windows: the one in which this node trusts its memory.
#[derive(Clone, Debug)]
pub(super) struct WindowEpochs {
    pub(super) node: Node,
    pub(super) standing: Arc<PeerConfirmations>,
    pub(super) epochs: Arc<StoreEpochs>,
}

#[async_trait]
impl EpochSource for WindowEpochs {
    fn followed(&self) -> Option<Epoch> {
        let (number, server) = self.standing.trusted(&self.node)?;
        Some(Epoch { number, server })
    }

    async fn settled(&self) -> Option<u64> {
        let (present, _) = self.epochs.current().await.ok()?;
        self.standing.earlier_epochs_ended(present).await;
        Some(present)
    }
}
