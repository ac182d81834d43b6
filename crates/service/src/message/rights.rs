//! The rights to send messages.

use kith_cache::Consistency;
use kith_store::{
    ConversationId, Edge, GroupId, GroupType, Member, MemberKey, Role, Roster, Timestamp, UserId,
};

use super::{DirectFrom, Messages, range::no_conversation};
use crate::{
    error::{Error, Reason},
    relation::are_friends,
    rpc::versions::wire_time,
};

impl Messages {
    /// Checks that a sender may send to a conversation now; `None`: a service that sends as itself, which
    /// only requires that the conversation exists. Fails if a record that decides cannot be read.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, PERMISSION_DENIED, or errors of the store.
    pub(crate) async fn may_send(
        &self,
        sender: Option<UserId>,
        conversation: ConversationId,
    ) -> Result<(), Error> {
        match (conversation, sender) {
            (ConversationId::Direct(one, other), None) => self.check_users_exist(&[one, other]).await,
            (ConversationId::Direct(one, other), Some(sender)) => {
                self.may_send_direct(sender, [one, other]).await
            }
            (ConversationId::Group(group), None) => self.dependencies.members.group(group).await.map(drop),
            (ConversationId::Group(group), Some(sender)) => self.may_send_to_group(sender, group).await,
            (ConversationId::Offline(_), _) => Err(no_conversation()),
        }
    }

    async fn may_send_direct(&self, sender: UserId, users: [UserId; 2]) -> Result<(), Error> {
        if !users.contains(&sender) {
            return Err(no_conversation());
        }
        let Some(other) = users.into_iter().find(|user| *user != sender) else {
            // Notes to oneself.
            return self.check_users_exist(&[sender]).await;
        };
        let (exist, allowed) =
            tokio::join!(self.check_users_exist(&users), self.check_receiver_allows(other, sender));
        exist.and(allowed)
    }

    /// Checks that neither of two users has blocked the other, and that `user` accepts messages from
    /// `sender`. The error does not reveal a block.
    async fn check_receiver_allows(&self, user: UserId, sender: UserId) -> Result<(), Error> {
        let blocks = &self.dependencies.blocks;
        if blocks.is_either_blocked(Edge { from: sender, to: user }).await? {
            return Err(not_allowed_by_receiver());
        }
        if self.config.direct_from == DirectFrom::Friends {
            let friends = are_friends(&self.dependencies.follows, blocks, sender, &[user]).await?;
            if friends != [true] {
                return Err(not_allowed_by_receiver());
            }
        }
        Ok(())
    }

    async fn may_send_to_group(&self, sender: UserId, group: GroupId) -> Result<(), Error> {
        let members = &self.dependencies.members;
        let kind = members.group(group).await?.kind;
        let (member, roster) = members.with_roster(MemberKey { group, user: sender }).await?;
        let member =
            member.ok_or_else(|| Error::not_allowed("only members of the group send messages to it"))?;
        if kind == GroupType::Channel && member.value.role == Role::Member {
            return Err(Error::not_allowed("only the owner and admins of a channel send messages to it"));
        }
        match muted_until(&member.value, &roster, Timestamp::now()) {
            Some(until) => Err(muted(until)),
            None => Ok(()),
        }
    }

    /// Checks that a user who can read a message may react to it: in a direct conversation unless one has
    /// blocked the other; in a group, also in a channel, as a member who is not muted.
    ///
    /// # Errors
    /// FAILED_PRECONDITION, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn may_react(&self, user: UserId, conversation: ConversationId) -> Result<(), Error> {
        let group = match conversation {
            ConversationId::Direct(one, other) => {
                let edge = Edge { from: user, to: if user == one { other } else { one } };
                let is_blocked = one != other && self.dependencies.blocks.is_either_blocked(edge).await?;
                return if is_blocked { Err(not_allowed_by_receiver()) } else { Ok(()) };
            }
            ConversationId::Group(group) => group,
            ConversationId::Offline(_) => return Err(no_conversation()),
        };
        let (member, roster) = self.dependencies.members.with_roster(MemberKey { group, user }).await?;
        let member =
            member.ok_or_else(|| Error::not_allowed("only members of the group react to messages"))?;
        muted_until(&member.value, &roster, Timestamp::now()).map_or(Ok(()), |until| Err(muted(until)))
    }

    async fn check_users_exist(&self, users: &[UserId]) -> Result<(), Error> {
        for found in self.dependencies.users.get_many(users, &Consistency::Cached).await {
            if found?.is_none() {
                return Err(Error::not_found("user"));
            }
        }
        Ok(())
    }
}

/// When a member's mute ends; `None`: it may send. Muting the group does not bind its owner and admins.
fn muted_until(member: &Member, roster: &Roster, now: Timestamp) -> Option<Timestamp> {
    let of_all = roster.muted_until.filter(|_| member.role == Role::Member);
    let mutes = [member.muted_until, of_all].into_iter().flatten();
    mutes.filter(|until| *until > now).max()
}

fn muted(until: Timestamp) -> Error {
    Error::new(Reason::Muted, "the member, or the group, is muted")
        .with("until", wire_time(until).to_string())
}

fn not_allowed_by_receiver() -> Error {
    Error::new(Reason::StateForbids, "the other user does not allow it")
}
