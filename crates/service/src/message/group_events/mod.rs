//! Events in group conversations: joins, leaves, owners and names.
//!
//! An event is appended after its change is stored, with a key that is made from the change's version: a
//! change that is repeated posts once. A failed append does not fail the change, and a node that dies in
//! between leaves the event out; the member lists are correct in any case.

use std::time::Duration;

use async_trait::async_trait;
use kith_proto::message::v1::{
    GroupRenamed, MembersJoined, MembersLeft, MembersRemoved, OwnerChanged, event::What,
};
use kith_store::{
    ConversationId, Group, GroupId, MEMBERS_AT_ONCE, Member, MessageKey, NewMessage, Role, Timestamp, UserId,
    Version,
};
use tokio::time::timeout;

use super::{event::event_message, queue::AppendQueue, store_error, waiting::SentWhen};
use crate::{
    error::Error,
    group::{
        RenameListener,
        member::{EndedMemberships, LeaveReason, MembershipEvent, MembershipListener},
    },
    metric::{MESSAGE_EVENTS, count_from_zero},
};

/// The most users in one event: a member change names no more.
const USERS_MAX: usize = 100;
const _: () = assert!(MEMBERS_AT_ONCE <= USERS_MAX);

/// Appends group events to their conversations. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GroupEvents {
    queue: AppendQueue,
    wait: Duration,
}

/// An event to be appended.
#[derive(Clone, Debug, PartialEq)]
struct GroupEvent {
    group: GroupId,
    /// Has a colon, so that no client can use this id for a message.
    key: String,
    event: What,
}

impl GroupEvents {
    /// Creates it over this node's appends. A change waits for its event for `wait` at most.
    #[must_use]
    pub fn new(queue: AppendQueue, wait: Duration) -> Self {
        count_from_zero(MESSAGE_EVENTS, &["appended", "failed"]);
        Self { queue, wait }
    }

    /// Appends an event, before all later sends through this node. Waits for it for a limited time.
    async fn post(&self, event: GroupEvent) {
        let conversation = ConversationId::Group(event.group);
        let event = event.message(Timestamp::now());
        let answers = match self.queue.enqueue(conversation, vec![event], SentWhen::Now) {
            Ok((_, answers)) => answers,
            Err(error) => return posted(Err(error)),
        };
        let posting = tokio::spawn(async move {
            posted(answers.await.into_iter().try_for_each(|answer| answer.map(drop).map_err(store_error)));
        });
        drop(timeout(self.wait, posting).await);
    }
}

fn posted(appended: Result<(), Error>) {
    let result = if appended.is_ok() { "appended" } else { "failed" };
    metrics::counter!(MESSAGE_EVENTS.name, "result" => result).increment(1);
    if let Err(error) = appended {
        tracing::warn!(%error, "an event of a group could not be appended to its conversation");
    }
}

impl GroupEvent {
    /// The event that follows from a membership change; `None`: there is none.
    fn of(event: &MembershipEvent) -> Option<Self> {
        match event {
            MembershipEvent::Joined { group, members, .. } => Self::joined(*group, members),
            MembershipEvent::Left { group, ended, .. } => Self::left(*group, ended),
            MembershipEvent::OwnerChanged { group, owner, version, .. } => {
                let event = What::Owner(OwnerChanged { user_id: owner.get() });
                Some(Self::of_members(*group, *version, event))
            }
            // No user reads a dismissed group's conversation.
            MembershipEvent::Demoted(_) | MembershipEvent::Dismissed(_) => None,
            // The users whom it concerns get a note.
            MembershipEvent::Changed(_) | MembershipEvent::AllMuted(_) => None,
        }
    }

    /// A group's founder is a member from its beginning, and has not joined.
    fn joined(group: GroupId, members: &[Member]) -> Option<Self> {
        let joined = || members.iter().filter(|member| member.role != Role::Owner);
        let version = joined().map(|member| member.version).max()?;
        let user_ids = joined().map(|member| member.key.user.get()).collect();
        Some(Self::of_members(group, version, What::Joined(MembersJoined { user_ids })))
    }

    fn left(group: GroupId, ended: &EndedMemberships) -> Option<Self> {
        if ended.users.is_empty() {
            return None;
        }
        let user_ids = ended.users.iter().copied().map(UserId::get).collect();
        let event = match ended.reason {
            LeaveReason::Left => What::Left(MembersLeft { user_ids }),
            LeaveReason::Removed => What::Removed(MembersRemoved { user_ids }),
        };
        Some(Self::of_members(group, ended.version, event))
    }

    fn of_members(group: GroupId, roster: Version, event: What) -> Self {
        Self { group, key: format!("members:{}", roster.get()), event }
    }

    fn renamed(group: &Group) -> Self {
        let event = What::Group(GroupRenamed { name: group.name.to_string() });
        Self { group: group.id, key: format!("group:{}", group.version.get()), event }
    }

    fn message(self, sent: Timestamp) -> NewMessage {
        event_message(MessageKey::of(None, &self.key), self.event, sent)
    }
}

#[async_trait]
impl MembershipListener for GroupEvents {
    async fn changed(&self, event: &MembershipEvent) -> Result<(), Error> {
        if let Some(event) = GroupEvent::of(event) {
            self.post(event).await;
        }
        Ok(())
    }
}

#[async_trait]
impl RenameListener for GroupEvents {
    async fn renamed(&self, group: &Group) {
        self.post(GroupEvent::renamed(group)).await;
    }
}

#[cfg(test)]
mod tests;
