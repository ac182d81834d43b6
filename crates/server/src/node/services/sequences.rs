//! Sequences, as configured: in Redis, or without Redis in this node's memory.

use std::sync::Arc;

use kith_cache::SystemClock;
use kith_delivery::{MemorySequences, SequenceKeeper, Sequences};
use kith_service::sequence::{SequenceRpc, TokioBackground};

use super::Assembly;

pub(super) fn sequences(parts: Assembly<'_>) -> SequenceRpc {
    let limits = parts.config.sequences.limits();
    let keeper: Arc<dyn SequenceKeeper> = match parts.cluster {
        Some(cluster) => cluster.sequences(),
        None => Arc::new(MemorySequences::new(limits.names)),
    };
    let (store, clock) = (Arc::clone(&parts.context.stores.sequences), Arc::new(SystemClock::new()));
    SequenceRpc::new(Sequences::new(store, keeper, clock, Arc::new(TokioBackground), limits))
}
