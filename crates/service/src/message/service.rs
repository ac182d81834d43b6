//! The message domain's state.

use std::{ops::Deref, sync::Arc};

use super::{
    MessagesConfig,
    dialog::LogHeads,
    erasing::ErasureStart,
    logs::Logs,
    own_marks::OwnMarks,
    queue::AppendQueue,
    reaction::{ReactionRecords, ReactionSignals},
    sending,
};
use crate::{
    conversation::ConversationRecords,
    dialog::{DialogRecords, MarkListener, MarkQueue},
    domain_context::DomainContext,
    group::member::Members,
    metric::{self, REACTIONS},
    relation::{Blocks, Follows},
    user::Users,
    write::mutations::Mutations,
};

/// The domains that messages use.
#[derive(Clone, Debug)]
pub struct MessageDependencies {
    /// The user accounts.
    pub users: Users,
    /// The group members.
    pub members: Members,
    /// The follow lists and records.
    pub follows: Follows,
    /// The block lists and records.
    pub blocks: Blocks,
}

/// The conversation records, without messages.
#[derive(Clone, Debug)]
pub struct ConversationData {
    /// Settings for all users.
    pub conversations: ConversationRecords,
    /// The users' dialogs.
    pub dialogs: DialogRecords,
    /// The reactions to messages.
    pub reactions: ReactionRecords,
}

/// A deployment's messages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Messages(Arc<MessagesInner>);

/// The parts that [`Messages`] uses.
#[derive(Debug)]
pub struct MessagesInner {
    pub(crate) logs: Logs,
    pub(super) queue: AppendQueue,
    pub(super) erasures: ErasureStart,
    pub(super) own_marks: OwnMarks,
    pub(crate) conversations: ConversationRecords,
    pub(crate) dialogs: DialogRecords,
    pub(super) reactions: ReactionRecords,
    pub(super) reaction_signals: ReactionSignals,
    pub(crate) marks: MarkQueue,
    pub(crate) mutations: Mutations,
    pub(crate) dependencies: MessageDependencies,
    pub(crate) config: MessagesConfig,
}

impl Deref for Messages {
    type Target = MessagesInner;

    fn deref(&self) -> &MessagesInner {
        &self.0
    }
}

impl Messages {
    /// Creates it over the logs to which `queue` appends. `marked` is notified about read marks.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        queue: AppendQueue,
        dependencies: MessageDependencies,
        ConversationData { conversations, dialogs, reactions }: ConversationData,
        marked: Arc<dyn MarkListener>,
        config: MessagesConfig,
    ) -> Self {
        let mutations = context.mutations;
        let heads = Arc::new(LogHeads::new(queue.logs.clone()));
        sending::count_from_zero();
        metric::count_from_zero(REACTIONS, &["added", "removed"]);
        Self(Arc::new(MessagesInner {
            logs: queue.logs.clone(),
            queue,
            erasures: ErasureStart::new(context),
            own_marks: OwnMarks::new(),
            marks: MarkQueue::new(context, dialogs.clone(), heads, dependencies.members.clone(), marked),
            conversations,
            dialogs,
            reactions,
            reaction_signals: ReactionSignals::default(),
            mutations: mutations.clone(),
            dependencies,
            config,
        }))
    }
}
