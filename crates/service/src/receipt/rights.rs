//! The rights to read receipts.

use kith_store::{ConversationId, MembershipAtSend, ReceiptVisibility, SentMessage, UserId};

use super::Receipts;
use crate::{
    error::{Error, Reason},
    group::member::GroupSeats,
};

/// The reader of receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiptCaller {
    /// A calling service.
    Service,
    /// A user, in a conversation that shows its receipts to these users.
    User(UserId, ReceiptVisibility),
}

impl Receipts {
    /// The caller: a user, or a service.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn caller(
        &self,
        user: Option<UserId>,
        conversation: ConversationId,
    ) -> Result<ReceiptCaller, Error> {
        let Some(user) = user else { return Ok(ReceiptCaller::Service) };
        Ok(ReceiptCaller::User(user, self.shown(conversation).await?))
    }

    /// The users to whom a conversation shows its receipts.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn shown(&self, conversation: ConversationId) -> Result<ReceiptVisibility, Error> {
        match conversation {
            ConversationId::Direct(..) => Ok(ReceiptVisibility::Sender),
            ConversationId::Offline(_) => Err(Error::not_found("conversation")),
            ConversationId::Group(group) => {
                let group = self.0.messages.dependencies.members.group(group).await?;
                Ok(group.receipts.unwrap_or_else(|| self.0.config.shown.into()))
            }
        }
    }
}

impl ReceiptCaller {
    /// Checks that the caller may see the receipt for a message that it can read.
    ///
    /// # Errors
    /// FAILED_PRECONDITION, PERMISSION_DENIED.
    pub(super) fn may_see(self, message: SentMessage, seats: &GroupSeats) -> Result<(), Error> {
        let Self::User(user, shown) = self else { return Ok(()) };
        let is_sender = message.sender == Some(user);
        match shown {
            ReceiptVisibility::Off => {
                Err(Error::new(Reason::StateForbids, "the group shows receipts to no user"))
            }
            ReceiptVisibility::Sender | ReceiptVisibility::Members if is_sender => Ok(()),
            ReceiptVisibility::Sender => {
                Err(Error::not_allowed("only the sender of the message and services may see its receipt"))
            }
            ReceiptVisibility::Members if is_reader(user, message, seats) => Ok(()),
            ReceiptVisibility::Members => {
                Err(Error::not_allowed("only members who are readers of the message may see its receipt"))
            }
        }
    }
}

/// Whether a user is a member, and was one when the message was sent.
fn is_reader(user: UserId, message: SentMessage, seats: &GroupSeats) -> bool {
    let seat = seats.of(user).map(|(_, seat)| seat).filter(|seat| seat.is_member());
    seat.is_some_and(|seat| seat.membership_at(message.seq) != MembershipAtSend::Absent)
}
