//! Sequences, as they are configured: by Redis, or without one in the memory of this node.

use std::sync::Arc;

use kith_cache::SystemClock;
use kith_delivery::{MemorySequences, SequenceKeeper, Sequences};
use kith_service::sequence::Spawned;
use kith_store::Stores;

use crate::{cluster::Cluster, config::Config};

pub(super) fn sequences(stores: &Stores, config: &Config, cluster: Option<&Cluster>) -> Sequences {
    let limits = config.sequences.limits();
    let keeper: Arc<dyn SequenceKeeper> = match cluster {
        Some(cluster) => cluster.sequences(),
        None => Arc::new(MemorySequences::new(limits.names)),
    };
    let (store, clock) = (Arc::clone(&stores.sequences), Arc::new(SystemClock::new()));
    Sequences::new(store, keeper, clock, Arc::new(Spawned), limits)
}
