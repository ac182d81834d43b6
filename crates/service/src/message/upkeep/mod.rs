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
    write::{lease::Lease, removal_time::RemovalTime, rounds::Rounds, tasks::BackgroundJob},
};

/// The longest time between two rounds.
const PERIOD: Duration = Duration::from_secs(2);
const ROUNDS: Rounds = Rounds {
    lease: "messages",
    lease_lasts: LEASE_LASTS,
    period: PERIOD,
    failed: "messages could not be removed",
};
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
    let mut upkeep = MessageUpkeep {
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
    let mut erasures = Erasures::new(context, queue, config.erase_rate);
    let removal = async move |lease: &mut Lease| upkeep.round(lease).await;
    let erasure = async move |lease: &mut Lease| erasures.round(lease).await;
    BackgroundJob::new([
        ROUNDS.run(coordination, node_id, removal).boxed(),
        erasures::ROUNDS.run(coordination, node_id, erasure).boxed(),
    ])
}

#[derive(Debug)]
struct MessageUpkeep {
    times: DocumentTimes,
    retention: Retention,
    trims: Trims,
    offline: OfflineTrims,
}

impl MessageUpkeep {
    /// Does some work in each part. A failure does not stop the other parts.
    async fn round(&mut self, lease: &mut Lease) -> Result<(), Error> {
        let completed = self.times.step().await;
        let marked = self.retention.step(lease).await;
        let trimmed = self.trims.step(lease).await;
        let entries = self.offline.step(lease).await;
        completed.and(marked).and(trimmed).and(entries)
    }
}
