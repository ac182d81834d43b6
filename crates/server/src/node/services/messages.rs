//! Messages and dialogs, as configured.

use std::sync::Arc;

use kith_cache::SystemClock;
use kith_delivery::{InboxKeeper, MemoryInboxes, Windows};
use kith_service::{
    conversation::{self, ConversationRecords},
    dialog::{self, DialogCleanup, DialogRecords},
    group::member::Roles,
    message::{
        AppendQueue, ConversationData, Delivery, Dialogs, ErasureCleanup, FanOutRetries, GroupEvents,
        Inboxes, Logs, MessageDependencies, Messages, Notes, OfflineLogs, OfflineRpc, ProfileSignals,
        ReactionCleanup, ReactionRecords, ReceiverSessions, Receiving, Recipients, StepNotes, UpkeepNode,
        documents, reaction, receivers_job, resumption_job, upkeep_job,
    },
    notice::LiveTotals,
    receipt::{ChangedReceipts, ReadMarks, Receipts, notifier_job},
    relation::Blocks,
    rpc::page_token::PageTokens,
    user::{AccountCleanup, Users},
    write::tasks::BackgroundJob,
};
use kith_store::NodeName;

use super::{Assembly, Domains, caches::cache_defaults, groups, relations, routes::MessagingCalls};
use crate::config::Config;

/// How messages are appended and delivered. Domains below messages use it.
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

/// Everything that streams with received messages need besides messages.
pub(super) struct StreamParts {
    /// Issues their cursors.
    pub(super) pages: PageTokens,
    /// The notice totals that they report.
    pub(super) totals: LiveTotals,
    /// Their users' sessions.
    pub(super) sessions: Arc<dyn ReceiverSessions>,
}

/// Messages and dialogs, and their background tasks.
pub(super) struct Messaging {
    pub(super) calls: MessagingCalls,
    pub(super) upkeep: BackgroundJob,
    /// Comes after the members: a deleted user is no longer a member when the end of a log is read.
    pub(super) cleanup: [Arc<dyn AccountCleanup>; 2],
    pub(super) repeats: FanOutRetries,
    pub(super) resumption: BackgroundJob,
    pub(super) receivers: BackgroundJob,
    pub(super) receipt_notifier: BackgroundJob,
}

pub(super) fn sending(parts: Assembly<'_>, users: &Users) -> Sending {
    let Assembly { context, config, .. } = parts;
    let inboxes = inboxes(parts);
    let (records, roles) = (records(parts), groups::roles(parts, users));
    let (members, members_max) = (Arc::clone(&context.stores.members), config.messages.fan_out_members_max);
    let members_max = usize::try_from(members_max).unwrap_or(usize::MAX);
    let notes = Notes::new(inboxes.clone(), records.dialogs.clone(), members, members_max);
    let blocks = relations::blocks(parts, &notes);
    let offline = OfflineLogs::new(
        context,
        records.dialogs.clone(),
        blocks.clone(),
        users.accesses().clone(),
        &config.messages,
    );
    let delivery = delivery(parts, inboxes, roles.clone(), offline.clone());
    let logs = logs(parts).with_reactions(records.reactions.clone());
    let queue = AppendQueue::new(logs, delivery.clone(), context.mutations.clone(), &config.messages);
    Sending { queue, notes, roles, records, blocks, offline, delivery }
}

pub(super) fn messaging(
    parts: Assembly<'_>,
    sending: Sending,
    domains: &Domains,
    streams: StreamParts,
) -> Messaging {
    let Assembly { context, config, .. } = parts;
    let StreamParts { pages, totals, sessions } = streams;
    let Sending { queue, notes, records, offline, delivery, .. } = sending;
    let offline = OfflineRpc::new(offline, pages.clone());
    let node = UpkeepNode { id: parts.among(), time: parts.removal_time, agreement: parts.agreement() };
    let upkeep = upkeep_job(context, &records.conversations, queue.clone(), &config.messages, node);
    let cleanup: [Arc<dyn AccountCleanup>; 2] = [
        Arc::new(DialogCleanup::new(context, records.dialogs.clone())),
        Arc::new(ReactionCleanup::new(context, records.reactions.clone())),
    ];
    let dependencies = MessageDependencies {
        users: domains.users.clone(),
        members: domains.members.clone(),
        follows: domains.follows.clone(),
        blocks: domains.blocks.clone(),
    };
    if config.messages.signals {
        let relations = || (domains.follows.clone(), domains.blocks.clone());
        let signals = ProfileSignals::new(&notes, parts.has_relations().then(relations));
        domains.users.notify_of_profiles(Arc::new(signals));
    }
    let marks = ReadMarks::new(Arc::clone(&context.stores.dialogs), config.receipts);
    let (marked, changes) = ChangedReceipts::new(marks.clone());
    let messages = Messages::new(context, queue, dependencies, records, Arc::new(marked), config.messages);
    let receipts = Receipts::new(messages.clone(), marks, config.receipts);
    let receipt_notifier = notifier_job(receipts.clone(), notes.clone(), changes);
    let dialogs = Dialogs::new(context, messages.clone(), notes);
    let receiving =
        Receiving::new(dialogs.clone(), messages.clone(), delivery.clone(), pages, totals, sessions);
    let receivers = receivers_job(&receiving, context.stores, parts.among());
    let resumption = resumption_job(context.stores, delivery.clone(), parts.among());
    let repeats = FanOutRetries::new(delivery);
    let calls =
        MessagingCalls { messages, dialogs, receiving, receipts, offline, agreement: parts.agreement() };
    Messaging { calls, upkeep, cleanup, repeats, resumption, receivers, receipt_notifier }
}

/// The conversations' records besides their messages.
fn records(parts: Assembly<'_>) -> ConversationData {
    let (context, defaults) = (parts.context, cache_defaults(parts.config));
    ConversationData {
        conversations: ConversationRecords::new(context, conversation::cache::policy(&defaults)),
        dialogs: DialogRecords::new(context, dialog::cache::policy(&defaults)),
        reactions: ReactionRecords::new(context, reaction::cache::policy(&defaults)),
    }
}

/// The messages; with Redis, each conversation's last messages in windows.
fn logs(parts: Assembly<'_>) -> Logs {
    let Assembly { context, config, cluster, .. } = parts;
    let (store, limits) = (&context.stores.messages, config.messages.windows());
    let none = || Windows::none(Arc::clone(store), Arc::new(SystemClock::new()), limits);
    let windows = cluster.map_or_else(none, |cluster| cluster.windows().clone());
    Logs::new(Arc::clone(store), context.caches, documents::cache::policy(&cache_defaults(config)), windows)
}

/// The inboxes of all users: in Redis, or without Redis in this node's memory.
fn inboxes(parts: Assembly<'_>) -> Inboxes {
    let limits = parts.config.messages.inboxes();
    let keeper: Arc<dyn InboxKeeper> = match parts.cluster {
        Some(cluster) => cluster.inboxes(limits),
        None => Arc::new(MemoryInboxes::new(Arc::new(SystemClock::new()), limits)),
    };
    Inboxes::new(keeper, node_name(parts.node_id))
}

/// A node's id is a valid name for a receiving node.
fn node_name(node_id: &str) -> NodeName {
    node_id.parse().unwrap_or_else(|_| unreachable!("the id of a node is a UUID"))
}

/// Delivers messages to inboxes.
fn delivery(parts: Assembly<'_>, inboxes: Inboxes, roles: Roles, offline: Option<OfflineLogs>) -> Delivery {
    let (messages, stores) = (&parts.config.messages, parts.context.stores);
    let notes = parts.cluster.and_then(|cluster| {
        let store = stores.fan_out_notes.clone()?;
        Some(StepNotes::new(cluster.fan_out_notes()?, store, node_name(&cluster.node_info().id)))
    });
    let recipients = Recipients::stored(roles, Arc::clone(&stores.members), messages.fan_out_members_max);
    Delivery::new(inboxes, messages.inboxes(), recipients, notes, offline)
}

/// The group events. `None`: disabled by the configuration.
pub(super) fn group_events(queue: &AppendQueue, config: &Config) -> Option<Arc<GroupEvents>> {
    // A call that changes members is answered in time also if its event takes long.
    let wait = config.limits.write_answer / 4;
    config.messages.events.then(|| Arc::new(GroupEvents::new(queue.clone(), wait)))
}

/// Erases deleted users' messages. `None`: disabled by the configuration.
pub(super) fn erasure_cleanup(parts: Assembly<'_>) -> Option<Arc<dyn AccountCleanup>> {
    let cleanup = || -> Arc<dyn AccountCleanup> { Arc::new(ErasureCleanup::new(parts.context)) };
    parts.config.messages.erase_on_delete.then(cleanup)
}
