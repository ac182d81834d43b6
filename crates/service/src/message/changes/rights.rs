//! The rights to change messages, and their time limits.

use std::time::Duration;

use kith_store::{
    CLOCKS_APART_MAX, ConversationId, GroupId, MemberKey, Message, MessageKind, Role, Seq, Timestamp, UserId,
};

use super::{
    super::{
        Messages,
        range::{no_conversation, store_error},
    },
    ChangeTarget, no_message, was_recalled,
};
use crate::{
    dialog::out_of_range,
    error::{Error, Reason},
    rpc::versions::wire_time,
};

impl Messages {
    /// The message to be changed. The caller must be able to read it, and it must not be an event.
    ///
    /// # Errors
    /// NOT_FOUND, OUT_OF_RANGE, INVALID_ARGUMENT, or errors of the store.
    pub(in crate::message) async fn get_changeable(&self, target: ChangeTarget) -> Result<Message, Error> {
        let bounds = self.seen_bounds(target.by, &[target.conversation]).await?;
        let bounds = bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation()))?;
        // Pretends that the log ended there: users who may not read its end must not learn it.
        if !bounds.with(target.seq).contains(target.seq) {
            return Err(no_message());
        }
        let message = self.stored(target.conversation, target.seq).await?;
        if message.kind == MessageKind::Event {
            return Err(Error::invalid("seq", "must not be that of an event"));
        }
        Ok(message)
    }

    /// Checks that a message may be recalled.
    ///
    /// # Errors
    /// PERMISSION_DENIED, FAILED_PRECONDITION, or errors of the store.
    pub(super) async fn may_recall(&self, target: ChangeTarget, message: &Message) -> Result<(), Error> {
        let Some(user) = target.by else { return Ok(()) };
        if message.sender == Some(user) {
            // It is recalled already: no effect.
            let is_recalled = message.recalled.is_some();
            return if is_recalled { Ok(()) } else { check_in_time(message.sent, self.config.recall_within) };
        }
        if self.may_moderate(user, target.conversation, message.sender).await? {
            return Ok(());
        }
        let why = "only its sender, those with a higher role in the group, and services recall a message";
        Err(Error::not_allowed(why))
    }

    /// Checks that a message may be edited. Requires the right to send to the conversation.
    ///
    /// # Errors
    /// PERMISSION_DENIED, FAILED_PRECONDITION, or errors of the store.
    pub(super) async fn may_edit(&self, target: ChangeTarget, message: &Message) -> Result<(), Error> {
        if let Some(user) = target.by
            && message.sender != Some(user)
        {
            return Err(Error::not_allowed("only its sender and services edit a message"));
        }
        if message.recalled.is_some() {
            return Err(was_recalled());
        }
        let Some(user) = target.by else { return Ok(()) };
        check_in_time(message.sent, self.config.edit_within)?;
        self.may_send(Some(user), target.conversation).await
    }

    /// The message with this number. After a failover the log may seem to end below it.
    async fn stored(&self, conversation: ConversationId, seq: Seq) -> Result<Message, Error> {
        let read = async || self.logs.store.messages(conversation, seq, seq).await.map_err(store_error);
        if let Some(message) = read().await?.pop() {
            return Ok(message);
        }
        if seq > self.logs.strong_end(conversation).await? {
            return Err(out_of_range());
        }
        read().await?.pop().ok_or_else(no_message)
    }

    /// Whether a user has a higher role than a message's sender. A user who is not a member counts as an
    /// ordinary member.
    async fn may_moderate(
        &self,
        user: UserId,
        conversation: ConversationId,
        sender: Option<UserId>,
    ) -> Result<bool, Error> {
        let (ConversationId::Group(group), Some(sender)) = (conversation, sender) else { return Ok(false) };
        let [of_user, of_sender] = self.roles(group, [user, sender]).await?;
        Ok(of_user > Some(of_sender.unwrap_or(Role::Member)))
    }

    /// The users' roles in a group; `None` for a user who is not a member.
    async fn roles(&self, group: GroupId, users: [UserId; 2]) -> Result<[Option<Role>; 2], Error> {
        let members = &self.dependencies.members;
        let role = async |user| {
            let member = members.with_roster(MemberKey { group, user }).await?.0;
            Ok::<_, Error>(member.map(|member| member.value.role))
        };
        let (one, other) = tokio::try_join!(role(users[0]), role(users[1]))?;
        Ok([one, other])
    }
}

/// Checks that a message which was sent at this time may still be changed by its sender.
fn check_in_time(sent: Timestamp, within: Duration) -> Result<(), Error> {
    let until = sent.after(within);
    if is_within(sent, within, Timestamp::now()) {
        return Ok(());
    }
    Err(Error::new(Reason::StateForbids, "too much time has passed since the message was sent")
        .with("until", wire_time(until).to_string()))
}

/// A message from further in the future was sent by a wrong clock: its sender has no longer time than others.
fn is_within(sent: Timestamp, within: Duration, now: Timestamp) -> bool {
    !within.is_zero() && now <= sent.after(within) && sent <= now.after(CLOCKS_APART_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_sender_has_an_end() {
        let within = |now| is_within(Timestamp(1_000), Duration::from_millis(500), Timestamp(now));
        assert_eq!([999, 1_000, 1_500, 1_501].map(within), [true, true, true, false]);
    }

    #[test]
    fn future_message_is_new_for_half_a_minute() {
        let within = |now| is_within(Timestamp(100_000), Duration::from_secs(3_600), Timestamp(now));
        assert_eq!([69_999, 70_000, 100_000].map(within), [false, true, true]);
    }

    #[test]
    fn no_time_is_never() {
        // Another node's clock may be ahead of this node's clock.
        for now in [999, 1_000, 1_001] {
            assert!(!is_within(Timestamp(1_000), Duration::ZERO, Timestamp(now)));
        }
    }
}
