//! Messages and dialogs, as they are configured.

use std::sync::Arc;

use kith_cache::SystemClock;
use kith_delivery::{InboxKeeper, MemoryInboxes, NodeName, Windows};
use kith_service::{
    conversation::{self, ConversationRecords},
    dialog::{self, DialogRecords},
    domain_context::DomainContext,
    group::members::Roles,
    message::{
        AppendQueue, Correspondents, Delivery, ErasureCleanup, GroupEvents, Inboxes, Logs, Messages, Records,
        StepNotes, documents,
    },
    user::AccountCleanup,
};

use super::{Domains, caches::cache_defaults};
use crate::{cluster::Cluster, config::Config};

/// What is kept of conversations besides their messages.
pub(super) fn records(context: DomainContext<'_>, config: &Config) -> Records {
    let defaults = cache_defaults(config);
    Records {
        conversations: ConversationRecords::new(context, conversation::cache::policy(&defaults)),
        dialogs: DialogRecords::new(context, dialog::cache::policy(&defaults)),
    }
}

/// The messages, the last ones of each conversation in windows where nodes share a Redis.
fn logs(context: DomainContext<'_>, config: &Config, cluster: Option<&Cluster>) -> Logs {
    let (store, limits) = (&context.stores.messages, config.messages.windows());
    let none = || Windows::none(Arc::clone(store), Arc::new(SystemClock::new()), limits);
    let windows = cluster.map_or_else(none, |cluster| cluster.windows().clone());
    Logs::new(Arc::clone(store), context.tiers, documents::cache::policy(&cache_defaults(config)), windows)
}

/// The inboxes of all users: in Redis where nodes share one, else in the memory of this node. `node_id` is another one for each
/// start.
pub(super) fn inboxes(config: &Config, cluster: Option<&Cluster>, node_id: &str) -> Inboxes {
    let limits = config.messages.inboxes();
    let keeper: Arc<dyn InboxKeeper> = match cluster {
        Some(cluster) => cluster.inboxes(limits),
        None => Arc::new(MemoryInboxes::new(Arc::new(SystemClock::new()), limits)),
    };
    Inboxes::new(keeper, node_name(node_id))
}

/// The id of a node has the form of a name of a receiving node.
fn node_name(node_id: &str) -> NodeName {
    node_id.parse().unwrap_or_else(|_| unreachable!("the id of a node is a UUID"))
}

/// What brings messages to inboxes.
pub(super) fn delivery(
    context: DomainContext<'_>,
    config: &Config,
    cluster: Option<&Cluster>,
    inboxes: Inboxes,
    roles: Roles,
) -> Delivery {
    let (messages, members) = (&config.messages, Arc::clone(&context.stores.members));
    let notes = cluster
        .and_then(|cluster| Some(StepNotes::new(cluster.fan_out_notes()?, node_name(&cluster.card().id))));
    Delivery::new(inboxes, messages.inboxes(), roles, members, messages.fan_out_members_max, notes)
}

/// The appends of this node.
pub(super) fn append_queue(
    context: DomainContext<'_>,
    config: &Config,
    cluster: Option<&Cluster>,
    delivery: Delivery,
) -> AppendQueue {
    let logs = logs(context, config, cluster);
    AppendQueue::new(logs, context.mutations.clone(), &config.messages).delivering(delivery)
}

/// What posts events of groups; `None`: it is configured not to.
pub(super) fn group_events(queue: &AppendQueue, config: &Config) -> Option<Arc<GroupEvents>> {
    // A call that changes members answers in time also when its event takes long.
    let wait = config.limits.write_answer / 4;
    config.messages.events.then(|| Arc::new(GroupEvents::new(queue.clone(), wait)))
}

/// What erases the messages of deleted users; `None`: it is configured not to.
pub(super) fn erasure_cleanup(
    context: DomainContext<'_>,
    config: &Config,
) -> Option<Arc<dyn AccountCleanup>> {
    let cleanup = || -> Arc<dyn AccountCleanup> { Arc::new(ErasureCleanup::new(context)) };
    config.messages.erase_on_delete.then(cleanup)
}

pub(super) fn messages(
    context: DomainContext<'_>,
    config: &Config,
    queue: AppendQueue,
    records: Records,
    domains: &Domains,
) -> Messages {
    let correspondents = Correspondents {
        users: domains.users.clone(),
        members: domains.members.clone(),
        follows: domains.follows.clone(),
        blocks: domains.blocks.clone(),
    };
    Messages::new(context, queue, correspondents, records, config.messages)
}
