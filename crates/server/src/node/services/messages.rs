//! Messages and dialogs, as configured.

use std::sync::Arc;

use kith_cache::SystemClock;
use kith_delivery::{InboxKeeper, MemoryInboxes, Windows};
use kith_service::{
    conversation::{self, ConversationRecords},
    dialog::{self, DialogCleanup, DialogRecords},
    domain_context::DomainContext,
    group::members::Roles,
    message::{
        AppendQueue, ConversationData, Correspondents, Delivery, Dialogs, ErasureCleanup, GroupEvents,
        Inboxes, Logs, Messages, Notes, OfflineLogs, Receiving, Recipients, Repeats, StepNotes, documents,
        receivers_job, resumption_job, upkeep_job,
    },
    notice::LiveTotals,
    receipt::{ChangedReceipts, ReadMarks, Receipts, notifier_job},
    relation::Blocks,
    rpc::page_token::PageTokens,
    user::{AccountCleanup, Users},
    write::tasks::BackgroundJob,
};
use kith_store::NodeName;

use super::{Domains, caches::cache_defaults, groups, relations};
use crate::{cluster::Cluster, config::Config};

/// The append and delivery of messages. Domains below messages use it.
pub(super) struct Sending {
    pub(super) queue: AppendQueue,
    pub(super) notes: Notes,
    pub(super) roles: Roles,
    pub(super) records: ConversationData,
    pub(super) blocks: Blocks,
    /// `None`: users without a receiver are not recorded by the configuration.
    pub(super) offline: Option<OfflineLogs>,
    delivery: Delivery,
}

/// What streams of received messages need besides messages.
pub(super) struct StreamParts {
    /// Seals their cursors.
    pub(super) pages: PageTokens,
    /// The totals of notices that they report.
    pub(super) totals: LiveTotals,
}

/// Messages and dialogs, and their background tasks.
pub(super) struct Talk {
    pub(super) messages: Messages,
    pub(super) dialogs: Dialogs,
    pub(super) receiving: Receiving,
    pub(super) upkeep: BackgroundJob,
    pub(super) dialog_cleanup: DialogCleanup,
    pub(super) repeats: Repeats,
    pub(super) resumption: BackgroundJob,
    pub(super) receivers: BackgroundJob,
    pub(super) receipts: Receipts,
    pub(super) receipt_notifier: BackgroundJob,
}

/// `node_id` is new for each start.
pub(super) fn sending(
    context: DomainContext<'_>,
    config: &Config,
    cluster: Option<&Cluster>,
    node_id: &str,
    users: &Users,
) -> Sending {
    let inboxes = inboxes(config, cluster, node_id);
    let (records, roles) = (records(context, config), groups::roles(context, config, users));
    let notes = Notes::new(inboxes.clone(), records.dialogs.clone());
    let blocks = relations::blocks(context, config, &notes);
    let offline = OfflineLogs::new(context, records.dialogs.clone(), blocks.clone(), &config.messages);
    let delivery = delivery(context, config, cluster, inboxes, roles.clone(), offline.clone());
    let queue = AppendQueue::new(logs(context, config, cluster), context.mutations.clone(), &config.messages)
        .delivering(delivery.clone());
    Sending { queue, notes, roles, records, blocks, offline, delivery }
}

/// `among`: the name of this node among others, if there may be some. `totals`: of notices, for streams.
pub(super) fn talk(
    context: DomainContext<'_>,
    config: &Config,
    sending: Sending,
    domains: &Domains,
    among: Option<&str>,
    streams: StreamParts,
) -> Talk {
    let StreamParts { pages, totals } = streams;
    let Sending { queue, notes, records, delivery, .. } = sending;
    let upkeep = upkeep_job(context, &records.conversations, queue.clone(), &config.messages, among);
    let dialog_cleanup = DialogCleanup::new(context, records.dialogs.clone());
    let correspondents = Correspondents {
        users: domains.users.clone(),
        members: domains.members.clone(),
        follows: domains.follows.clone(),
        blocks: domains.blocks.clone(),
    };
    let marks = ReadMarks::new(Arc::clone(&context.stores.dialogs), config.receipts);
    let (marked, changes) = ChangedReceipts::new(marks.clone());
    let messages = Messages::new(context, queue, correspondents, records, Arc::new(marked), config.messages);
    let receipts = Receipts::new(messages.clone(), marks, config.receipts);
    let receipt_notifier = notifier_job(receipts.clone(), notes.clone(), changes);
    let dialogs = Dialogs::new(context, messages.clone(), notes);
    let receiving = Receiving::new(dialogs.clone(), messages.clone(), delivery.clone(), pages, totals);
    let (receivers, resumption) =
        (receivers_job(&receiving), resumption_job(context.stores, delivery.clone(), among));
    let repeats = Repeats::new(delivery);
    Talk {
        messages,
        dialogs,
        receiving,
        upkeep,
        dialog_cleanup,
        repeats,
        resumption,
        receivers,
        receipts,
        receipt_notifier,
    }
}

/// The records of conversations besides their messages.
fn records(context: DomainContext<'_>, config: &Config) -> ConversationData {
    let defaults = cache_defaults(config);
    ConversationData {
        conversations: ConversationRecords::new(context, conversation::cache::policy(&defaults)),
        dialogs: DialogRecords::new(context, dialog::cache::policy(&defaults)),
    }
}

/// The messages; with Redis, the last ones of each conversation in windows.
fn logs(context: DomainContext<'_>, config: &Config, cluster: Option<&Cluster>) -> Logs {
    let (store, limits) = (&context.stores.messages, config.messages.windows());
    let none = || Windows::none(Arc::clone(store), Arc::new(SystemClock::new()), limits);
    let windows = cluster.map_or_else(none, |cluster| cluster.windows().clone());
    Logs::new(Arc::clone(store), context.caches, documents::cache::policy(&cache_defaults(config)), windows)
}

/// The inboxes of all users: in Redis, or without one in the memory of this node. `node_id` is new for each start.
fn inboxes(config: &Config, cluster: Option<&Cluster>, node_id: &str) -> Inboxes {
    let limits = config.messages.inboxes();
    let keeper: Arc<dyn InboxKeeper> = match cluster {
        Some(cluster) => cluster.inboxes(limits),
        None => Arc::new(MemoryInboxes::new(Arc::new(SystemClock::new()), limits)),
    };
    Inboxes::new(keeper, node_name(node_id))
}

/// The id of a node is a valid name of a receiving node.
fn node_name(node_id: &str) -> NodeName {
    node_id.parse().unwrap_or_else(|_| unreachable!("the id of a node is a UUID"))
}

/// The delivery of messages to inboxes.
fn delivery(
    context: DomainContext<'_>,
    config: &Config,
    cluster: Option<&Cluster>,
    inboxes: Inboxes,
    roles: Roles,
    offline: Option<OfflineLogs>,
) -> Delivery {
    let (messages, members) = (&config.messages, Arc::clone(&context.stores.members));
    let notes = cluster.and_then(|cluster| {
        let store = context.stores.fan_out_notes.clone()?;
        Some(StepNotes::new(cluster.fan_out_notes()?, store, node_name(&cluster.node_info().id)))
    });
    let recipients = Recipients::stored(roles, members, messages.fan_out_members_max);
    Delivery::new(inboxes, messages.inboxes(), recipients, notes, offline)
}

/// The events of groups; `None`: disabled by the configuration.
pub(super) fn group_events(queue: &AppendQueue, config: &Config) -> Option<Arc<GroupEvents>> {
    // A call that changes members is answered in time also if its event takes long.
    let wait = config.limits.write_answer / 4;
    config.messages.events.then(|| Arc::new(GroupEvents::new(queue.clone(), wait)))
}

/// The erasure of the messages of deleted users; `None`: disabled by the configuration.
pub(super) fn erasure_cleanup(
    context: DomainContext<'_>,
    config: &Config,
) -> Option<Arc<dyn AccountCleanup>> {
    let cleanup = || -> Arc<dyn AccountCleanup> { Arc::new(ErasureCleanup::new(context)) };
    config.messages.erase_on_delete.then(cleanup)
}
