//! Message upkeep in all conversations: removes messages that users may no longer read, and messages by users
//! that are to be erased, from the store.
//!
//! One node does it, by a lease. Each part may be done twice, so the lease only spares work.

mod content_removal;
mod document_times;
mod erasures;
mod offline;
mod retention;
mod trims;

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use tokio::time::sleep;

use self::{
    document_times::DocumentTimes, erasures::Erasures, offline::OfflineTrims, retention::Retention,
    trims::Trims,
};
use super::{AppendQueue, MessagesConfig};
use crate::{
    conversation::ConversationRecords,
    domain_context::DomainContext,
    error::Error,
    metric::{self, MESSAGES_ERASED, MESSAGES_TRIMMED},
    schema_agreement::SchemaAgreement,
    write::{lease::Lease, removal_time::RemovalTime, tasks::BackgroundJob},
};

/// The approximate time between rounds.
const PERIOD: Duration = Duration::from_secs(2);
/// The name of the lease.
const LEASE: &str = "messages";
/// The name of the lease and the mark for completing documents.
const TIMES_LEASE: &str = "message_times";
/// A few times as long as a step takes.
const LEASE_LASTS: Duration = Duration::from_secs(15);
/// Deadline for beginning a store step, which begins at once and runs to its end.
const BEGUN_WITHIN: Duration = Duration::from_secs(10);

/// The upkeep's view of the nodes.
#[derive(Clone, Debug)]
pub struct UpkeepNode<'a> {
    /// This node's id, if there are others.
    pub id: Option<&'a str>,
    /// The time by which old messages are removed.
    pub time: &'a RemovalTime,
    /// Whether all nodes know this node's schema.
    pub agreement: SchemaAgreement,
}

/// The job that removes messages, and their contents.
#[must_use]
pub fn upkeep_job(
    context: DomainContext<'_>,
    conversations: &ConversationRecords,
    queue: AppendQueue,
    config: &MessagesConfig,
    node: UpkeepNode<'_>,
) -> BackgroundJob {
    let UpkeepNode { id: node_id, time, agreement } = node;
    let coordination = &context.stores.coordination;
    let times_lease = Lease::new(coordination, TIMES_LEASE, node_id, LEASE_LASTS);
    metric::count_from_zero(MESSAGES_TRIMMED, &[]);
    metric::count_from_zero(MESSAGES_ERASED, &[]);
    let store = &context.stores.message_upkeep;
    let rounds = MessageUpkeepRounds {
        lease: Lease::new(coordination, LEASE, node_id, LEASE_LASTS),
        times: DocumentTimes::new(Arc::clone(store), agreement, times_lease),
        retention: Retention::new(Arc::clone(store), conversations.clone(), time.clone(), config.kept),
        trims: Trims::new(Arc::clone(store), conversations.clone(), context.mutations.clone(), time.clone()),
        offline: OfflineTrims::new(
            Arc::clone(&context.stores.messages),
            Arc::clone(store),
            context.mutations.clone(),
            time.clone(),
            config.offline_kept,
        ),
    };
    let erasures = Erasures::new(context, queue, config.erase_rate, node_id);
    BackgroundJob::new([rounds.run().boxed(), erasures.run().boxed()])
}

#[derive(Debug)]
struct MessageUpkeepRounds {
    /// The lease for the node that does it.
    lease: Lease,
    times: DocumentTimes,
    retention: Retention,
    trims: Trims,
    offline: OfflineTrims,
}

impl MessageUpkeepRounds {
    async fn run(mut self) {
        loop {
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "messages could not be removed; it is tried again");
            }
            sleep(PERIOD.mul_f64(rand::random_range(0.75..1.25))).await;
        }
    }

    /// Does some work in each part, if this node has the lease. A failure does not stop the other parts.
    async fn round(&mut self) -> Result<(), Error> {
        if !self.lease.is_held().await.unwrap_or(false) {
            return Ok(());
        }
        let completed = self.times.step().await;
        let marked = self.retention.step(&mut self.lease).await;
        let trimmed = self.trims.step(&mut self.lease).await;
        let entries = self.offline.step(&mut self.lease).await;
        completed.and(marked).and(trimmed).and(entries)
    }
}
