//! Friend requests, and applications to groups.

mod pending_requests;
mod store;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    GroupId, Invalid, Text, Timestamp, UserId, Version,
    id::{id, id_of_moment},
    prose, single_line,
};

pub use pending_requests::{ApplicationTransition, PendingRequests};
pub use store::{
    APPLICATIONS_AT_ONCE, ApplicationList, ApplicationMark, ApplicationStore, COMPLETION_GRACE,
    DueApplication, DueApplications, ListedApplication, distinct_ids,
};

id! {
    /// Identifies an application among those to one receiver. Rises with the creation time.
    ApplicationId
}
id_of_moment! { ApplicationId }

const MESSAGE_CHARS_MAX: usize = 200;
const REFERENCE_CHARS_MAX: usize = 64;

/// The party that receives an application, and decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receiver {
    /// A user receives it.
    User(UserId),
    /// A group: its owner and admins.
    Group(GroupId),
}

impl Receiver {
    /// The stored form: 0 and a user's id, or 1 and a group's id.
    #[must_use]
    pub const fn numbers(self) -> (i32, i64) {
        match self {
            Self::User(user) => (0, user.get()),
            Self::Group(group) => (1, group.get()),
        }
    }

    /// Parses [`Self::numbers`]; `None`: invalid.
    #[must_use]
    pub fn of(side: i64, id: i64) -> Option<Self> {
        match side {
            0 => UserId::new(id).ok().map(Self::User),
            1 => GroupId::new(id).ok().map(Self::Group),
            _ => None,
        }
    }
}

/// Identifies an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ApplicationKey {
    /// The party that decides about it.
    pub receiver: Receiver,
    /// The application.
    pub id: ApplicationId,
}

/// The kinds of applications. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum ApplicationKind {
    /// A user asks another user for friendship.
    Friend = 1,
    /// A user applies to a group.
    Join = 2,
    /// A user is invited to a group.
    Invite = 3,
}

/// The purpose of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplicationPurpose {
    /// This user becomes the applicant's friend.
    Friend(UserId),
    /// The applicant becomes a member in this group.
    Join(GroupId),
    /// This user, whom the applicant invites, becomes a member in this group.
    Invite(GroupId, UserId),
}

impl ApplicationPurpose {
    /// Returns the kind.
    #[must_use]
    pub const fn kind(self) -> ApplicationKind {
        match self {
            Self::Friend(_) => ApplicationKind::Friend,
            Self::Join(_) => ApplicationKind::Join,
            Self::Invite(..) => ApplicationKind::Invite,
        }
    }

    /// The receiver, who decides.
    #[must_use]
    pub const fn receiver(self) -> Receiver {
        match self {
            Self::Friend(user) | Self::Invite(_, user) => Receiver::User(user),
            Self::Join(group) => Receiver::Group(group),
        }
    }

    /// Returns the slot for this applicant's application. All who invite a user to a group share one slot.
    #[must_use]
    pub const fn slot(self, applicant: UserId) -> ApplicationSlot {
        let origin = match self {
            Self::Friend(_) | Self::Join(_) => applicant.get(),
            Self::Invite(group, _) => group.get(),
        };
        ApplicationSlot { kind: self.kind(), origin }
    }

    /// The group, if it concerns any.
    #[must_use]
    pub const fn group(self) -> Option<GroupId> {
        match self {
            Self::Friend(_) => None,
            Self::Join(group) | Self::Invite(group, _) => Some(group),
        }
    }
}

/// At most one application to a receiver is pending in each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ApplicationSlot {
    /// The application's kind.
    pub kind: ApplicationKind,
    /// The applicant: a user; for invites the group, whichever admin invites.
    pub origin: i64,
}

/// An application's status. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum ApplicationState {
    /// The receiver has not decided yet.
    Pending = 1,
    /// Accepted by its receiver.
    Accepted = 2,
    /// Rejected by its receiver.
    Refused = 3,
    /// Withdrawn by its applicant.
    Withdrawn = 4,
    /// Closed: its purpose was fulfilled in another way, or its preconditions have ended.
    Closed = 5,
    /// It expired without a decision.
    Expired = 6,
}

impl ApplicationState {
    /// The name in the metadata of errors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Withdrawn => "withdrawn",
            Self::Closed => "closed",
            Self::Expired => "expired",
        }
    }
}

/// Says whether an application's effect was applied. The numbers are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum ApplicationEffect {
    /// There is no effect: it was not accepted.
    #[default]
    None = 0,
    /// Outstanding: it was accepted, and its effect is in progress.
    Outstanding = 1,
    /// The effect was applied.
    Done = 2,
    /// Failed: it was accepted, but the group was full by then, or a user was deleted.
    Refused = 3,
}

/// An application's preconditions, recorded when it was made. It can be accepted while all hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationBasis {
    /// When the applicant's account was created: another account may have its id later.
    pub applicant: Timestamp,
    /// When the receiving user's account was created; `None`: the receiver is a group.
    pub user: Option<Timestamp>,
    /// The group's preconditions, if it concerns a group.
    pub group: Option<GroupBasis>,
    /// Whether the applicant invites by its own role in the group; false: a service invites in its name.
    pub by_role: bool,
}

/// The preconditions that concern a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupBasis {
    /// When the group was created: after its dismissal another group may have its id.
    pub created: Timestamp,
    /// The roster's version, read before the check that the user is not a member. If the user's row has a
    /// later version, the user was a member in between.
    pub roster: Version,
}

/// A user's or group's request that another party decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// Its id among those to its receiver.
    pub id: ApplicationId,
    /// The purpose that the applicant stated.
    #[serde(rename = "asks")]
    pub purpose: ApplicationPurpose,
    /// The user who applies.
    pub applicant: UserId,
    /// The version of [`PendingRequests`](crate::PendingRequests) at this record's last change. Rises, but is
    /// not consecutive.
    pub version: Version,
    /// The applicant's message.
    pub message: Text,
    /// A reference for the applicant's program.
    pub reference: Text,
    /// The users whose lists of received applications contain it.
    pub receivers: Vec<UserId>,
    /// Its preconditions; `None`: it was made by a version that did not record them.
    #[serde(default)]
    pub basis: Option<ApplicationBasis>,
    /// The application's status.
    pub state: ApplicationState,
    /// The user who decided or withdrew it; `None`: not decided, or not by a user.
    pub decider: Option<UserId>,
    /// The state of its effect.
    pub effect: ApplicationEffect,
    /// When it was made.
    pub created: Timestamp,
    /// When it expires. It cannot be decided after that.
    pub expires: Timestamp,
    /// When it was decided, withdrawn or ended; `None`: still pending.
    pub decided: Option<Timestamp>,
    /// How long it is kept after that.
    pub kept: Duration,
}

impl Application {
    /// Returns its key.
    #[must_use]
    pub const fn key(&self) -> ApplicationKey {
        ApplicationKey { receiver: self.purpose.receiver(), id: self.id }
    }

    /// Its slot. At most one application in a slot is pending.
    #[must_use]
    pub const fn slot(&self) -> ApplicationSlot {
        self.purpose.slot(self.applicant)
    }

    /// The lists that contain it.
    pub fn lists(&self) -> impl Iterator<Item = ApplicationList> {
        let received = self.receivers.iter().map(|user| ApplicationList::Received(*user));
        let of_group = self.purpose.group().map(ApplicationList::Group);
        std::iter::once(ApplicationList::Sent(self.applicant)).chain(received).chain(of_group)
    }

    /// When it is deleted; for a pending application, at the earliest.
    #[must_use]
    pub fn forgotten(&self) -> Timestamp {
        self.decided.unwrap_or(self.expires).after(self.kept)
    }

    /// Whether it can still be decided.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.state == ApplicationState::Pending && now < self.expires
    }

    /// Whether work is left: an acceptance to carry out, or an expired application to end.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.effect == ApplicationEffect::Outstanding
            || self.state == ApplicationState::Pending && self.expires <= now
    }

    /// Checks a message: prose with at most 200 characters, see [`prose`].
    ///
    /// # Errors
    /// If it is longer, or contains a character that is not allowed.
    pub fn message(message: &str) -> Result<Text, Invalid> {
        prose(message, MESSAGE_CHARS_MAX)
    }

    /// Checks a reference: one line with at most 64 characters, see [`single_line`].
    ///
    /// # Errors
    /// If it is longer, or contains a character that is not allowed.
    pub fn reference(reference: &str) -> Result<Text, Invalid> {
        single_line(reference, REFERENCE_CHARS_MAX)
    }
}

/// An application to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewApplication {
    /// Its id, if none is pending.
    pub id: ApplicationId,
    /// The purpose that the applicant states.
    pub purpose: ApplicationPurpose,
    /// The user who applies.
    pub applicant: UserId,
    /// The applicant's message.
    pub message: Text,
    /// The applicant's reference.
    pub reference: Text,
    /// The users whose lists of received applications are to contain it.
    pub receivers: Vec<UserId>,
    /// Its preconditions.
    pub basis: ApplicationBasis,
    /// When it expires. It cannot be decided after that.
    pub expires: Timestamp,
    /// How long it is kept after its decision.
    pub kept: Duration,
    /// The most pending applications to the receiver, all kinds together.
    pub pending_max: u32,
}

/// How a receiver decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Accepts the application.
    Accept,
    /// Rejects the application.
    Refuse,
}

/// A change to the applications for one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplicationChange {
    /// Creates an application if none in its slot is pending; otherwise returns the pending application
    /// unchanged.
    Apply(NewApplication),
    /// Decides a pending application, by this user; `None`: by a service.
    Decide(ApplicationId, Decision, Option<UserId>),
    /// Withdraws a pending application, by this user; `None`: by a service.
    Withdraw(ApplicationId, Option<UserId>),
    /// Closes a pending application in this slot that was made by this time: its purpose was fulfilled, or
    /// its preconditions ended, at this time.
    Close(ApplicationSlot, Timestamp),
    /// Ends a pending application that has expired. Does nothing to other applications.
    Expire(ApplicationId),
    /// Refuses a new request as not found; a repeated one gets its former answer.
    ReplayOnly,
    /// Records an outstanding effect's result. Does nothing if no effect is outstanding.
    RecordEffect(ApplicationId, ApplicationEffect),
}

/// The application that a change concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeTarget {
    /// Finds the application with this id.
    Id(ApplicationId),
    /// Finds the last application in this slot.
    Slot(ApplicationSlot),
}

impl ApplicationChange {
    /// The application that it concerns, if any.
    #[must_use]
    pub const fn target(&self) -> Option<ChangeTarget> {
        match self {
            Self::Apply(new) => Some(ChangeTarget::Slot(new.purpose.slot(new.applicant))),
            Self::Close(slot, _) => Some(ChangeTarget::Slot(*slot)),
            Self::Decide(id, ..) | Self::Withdraw(id, _) | Self::Expire(id) | Self::RecordEffect(id, _) => {
                Some(ChangeTarget::Id(*id))
            }
            Self::ReplayOnly => None,
        }
    }
}

/// Why a change to applications was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplicationRefusal {
    /// It is no longer pending; with its status, and the user who decided, if one did.
    #[error("the application is not pending any more")]
    Decided(ApplicationState, Option<UserId>),
    /// The receiver has reached its limit for pending applications.
    #[error("as many applications are pending with the receiver as may be")]
    TooManyPending,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_read_back_and_others_are_none() {
        let both = [Receiver::User(UserId::new(7).unwrap()), Receiver::Group(GroupId::new(7).unwrap())];
        for receiver in both {
            let (side, id) = receiver.numbers();
            assert_eq!(Receiver::of(side.into(), id), Some(receiver));
        }
        assert_eq!((Receiver::of(2, 7), Receiver::of(0, 0)), (None, None));
    }
}
