mod pending_requests;
mod store;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    GroupId, Invalid, Text, Timestamp, UserId, Version,
    id::{id, id_of_moment},
    prose, single_line,
};

pub use pending_requests::{PendingRequests, Verdict};
pub use store::{
    APPLICATIONS_AT_ONCE, ApplicationList, ApplicationMark, ApplicationStore, DueApplication,
    DueApplications, LEFT_TO_WHO_CHANGED, ListedApplication, distinct_ids,
};

id! {
    /// Names an application among those to one receiver. The later it was made, the higher.
    ApplicationId
}
id_of_moment! { ApplicationId }

const MESSAGE_CHARS_MAX: usize = 200;
const REFERENCE_CHARS_MAX: usize = 64;

/// To whom an application is made: who decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receiver {
    /// A user.
    User(UserId),
    /// A group: its owner and admins.
    Group(GroupId),
}

impl Receiver {
    /// As it is stored: 0 and the id of a user, 1 and that of a group.
    #[must_use]
    pub const fn numbers(self) -> (i32, i64) {
        match self {
            Self::User(user) => (0, user.get()),
            Self::Group(group) => (1, group.get()),
        }
    }

    /// Reads [`Self::numbers`]; `None`: it is none.
    #[must_use]
    pub fn of(side: i64, id: i64) -> Option<Self> {
        match side {
            0 => UserId::new(id).ok().map(Self::User),
            1 => GroupId::new(id).ok().map(Self::Group),
            _ => None,
        }
    }
}

/// One application among those to one receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ApplicationKey {
    /// To whom it was made.
    pub receiver: Receiver,
    /// Which.
    pub id: ApplicationId,
}

/// What kinds of applications there are. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum ApplicationKind {
    /// A user asks another one to be friends.
    Friend = 1,
    /// A user asks to be let into a group.
    Join = 2,
    /// A group asks a user in.
    Invite = 3,
}

/// What an application asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// That this user be a friend of the applicant.
    Friend(UserId),
    /// That this group take the applicant in.
    Join(GroupId),
    /// That this user come into this group, into which the applicant invites it.
    Invite(GroupId, UserId),
}

impl Asks {
    /// Of which kind it is.
    #[must_use]
    pub const fn kind(self) -> ApplicationKind {
        match self {
            Self::Friend(_) => ApplicationKind::Friend,
            Self::Join(_) => ApplicationKind::Join,
            Self::Invite(..) => ApplicationKind::Invite,
        }
    }

    /// Who decides.
    #[must_use]
    pub const fn receiver(self) -> Receiver {
        match self {
            Self::Friend(user) | Self::Invite(_, user) => Receiver::User(user),
            Self::Join(group) => Receiver::Group(group),
        }
    }

    /// The slot of an application of this applicant for it. Of an invite all inviters of the group have the same slot.
    #[must_use]
    pub const fn slot(self, applicant: UserId) -> ApplicationSlot {
        let origin = match self {
            Self::Friend(_) | Self::Join(_) => applicant.get(),
            Self::Invite(group, _) => group.get(),
        };
        ApplicationSlot { kind: self.kind(), origin }
    }

    /// The group that it is about, if it is about one.
    #[must_use]
    pub const fn group(self) -> Option<GroupId> {
        match self {
            Self::Friend(_) => None,
            Self::Join(group) | Self::Invite(group, _) => Some(group),
        }
    }
}

/// Of applications to one receiver that agree in this, one is pending at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ApplicationSlot {
    /// Of which kind.
    pub kind: ApplicationKind,
    /// The applicant: a user, or for invites the group, whichever admin invites in its name.
    pub origin: i64,
}

/// How far an application is. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum ApplicationState {
    /// Not decided yet.
    Pending = 1,
    /// Its receiver has accepted it.
    Accepted = 2,
    /// Its receiver has refused it.
    Refused = 3,
    /// Its applicant has taken it back.
    Withdrawn = 4,
    /// What it asked for came about otherwise, or what it rests on has ended.
    Closed = 5,
    /// It expired without a decision.
    Expired = 6,
}

impl ApplicationState {
    /// Its name, as metadata of errors has it.
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

/// What became of what was asked for. The numbers are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum ApplicationEffect {
    /// Nothing is to be done: it was not accepted.
    #[default]
    None = 0,
    /// It was accepted, and is being done.
    Outstanding = 1,
    /// It is done.
    Done = 2,
    /// It was accepted, and could not be done any more: the group was full by then, or a user gone.
    Refused = 3,
}

/// What an application rests on, as it was when it was made. It can be accepted while all of it is still so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationBasis {
    /// When the account of the applicant was created: another account may have its id later.
    pub applicant: Timestamp,
    /// When the account of the user who is asked was created; `None`: a group is asked.
    pub user: Option<Timestamp>,
    /// Of the group that it is about, if it is about one.
    pub group: Option<GroupBasis>,
    /// Whether the applicant invites by its own role in the group; false: in its name, by a service.
    pub by_role: bool,
}

/// What an application rests on of the group that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupBasis {
    /// When the group was created: after its dismissal another one may have its id.
    pub created: Timestamp,
    /// Of its roster, read before it was made sure that the user is not a member. If the user left or was removed by a later
    /// version, then it was a member in between.
    pub roster: Version,
}

/// A request of one party about which another one decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// Which, among those to its receiver.
    pub id: ApplicationId,
    /// For what.
    pub asks: Asks,
    /// Who asks.
    pub applicant: UserId,
    /// That of the [`PendingRequests`](crate::PendingRequests) when this was changed last: it rises, not by one.
    pub version: Version,
    /// What the applicant says.
    pub message: Text,
    /// What the applicant refers to, as its program has it.
    pub reference: Text,
    /// The users in whose lists of received applications it is.
    pub receivers: Vec<UserId>,
    /// What it rests on; `None`: it was made by a version that did not note it.
    #[serde(default)]
    pub basis: Option<ApplicationBasis>,
    /// How far it is.
    pub state: ApplicationState,
    /// Who decided, or took it back; `None`: not decided yet, or not by a user.
    pub decider: Option<UserId>,
    /// What became of it.
    pub effect: ApplicationEffect,
    /// When it was made.
    pub created: Timestamp,
    /// From when on it can no longer be decided.
    pub expires: Timestamp,
    /// When it was decided, taken back or ended; `None`: not yet.
    pub decided: Option<Timestamp>,
    /// How long it is kept from then on.
    pub kept: Duration,
}

impl Application {
    /// Which it is among all.
    #[must_use]
    pub const fn key(&self) -> ApplicationKey {
        ApplicationKey { receiver: self.asks.receiver(), id: self.id }
    }

    /// Of which those that agree in it one is pending at most.
    #[must_use]
    pub const fn slot(&self) -> ApplicationSlot {
        self.asks.slot(self.applicant)
    }

    /// The lists that contain it.
    pub fn lists(&self) -> impl Iterator<Item = ApplicationList> {
        let received = self.receivers.iter().map(|user| ApplicationList::Received(*user));
        let of_group = self.asks.group().map(ApplicationList::Group);
        std::iter::once(ApplicationList::Sent(self.applicant)).chain(received).chain(of_group)
    }

    /// From when on nothing is known of it any more. Of one that is pending: at the earliest.
    #[must_use]
    pub fn forgotten(&self) -> Timestamp {
        self.decided.unwrap_or(self.expires).after(self.kept)
    }

    /// Whether it can still be decided.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.state == ApplicationState::Pending && now < self.expires
    }

    /// Whether something is left to be done: the effect of an acceptance, or to end what has run out.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.effect == ApplicationEffect::Outstanding
            || self.state == ApplicationState::Pending && self.expires <= now
    }

    /// Checks a message: prose of at most 200 characters, see [`prose`].
    ///
    /// # Errors
    /// When it is longer, or has a character that it may not hold.
    pub fn message(message: &str) -> Result<Text, Invalid> {
        prose(message, MESSAGE_CHARS_MAX)
    }

    /// Checks a reference: one line of at most 64 characters, see [`single_line`].
    ///
    /// # Errors
    /// When it is longer, or has a character that it may not hold.
    pub fn reference(reference: &str) -> Result<Text, Invalid> {
        single_line(reference, REFERENCE_CHARS_MAX)
    }
}

/// An application that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewApplication {
    /// Which it becomes, where none is pending.
    pub id: ApplicationId,
    /// For what.
    pub asks: Asks,
    /// Who asks.
    pub applicant: UserId,
    /// What the applicant says.
    pub message: Text,
    /// What the applicant refers to.
    pub reference: Text,
    /// In whose lists of what was received it is to stand.
    pub receivers: Vec<UserId>,
    /// What it rests on.
    pub basis: ApplicationBasis,
    /// From when on it can no longer be decided.
    pub expires: Timestamp,
    /// How long it is kept once it was decided.
    pub kept: Duration,
    /// How many may be pending with the receiver, of all kinds.
    pub pending_max: u32,
}

/// What a receiver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// What is asked for is to be.
    Accept,
    /// It is not.
    Refuse,
}

/// A change of the applications to one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplicationChange {
    /// Creates one, if none of its slot is pending; else nothing is changed, and the pending one is returned.
    Apply(NewApplication),
    /// Decides about one that is pending. By this user; `None`: by a service.
    Decide(ApplicationId, Decision, Option<UserId>),
    /// Takes one back that is pending. By this user; `None`: by a service.
    Withdraw(ApplicationId, Option<UserId>),
    /// Closes one of this slot that is pending and was made by this moment: what it asks for came about, or what it rests on
    /// ended, then.
    Close(ApplicationSlot, Timestamp),
    /// Ends one that is pending and has run out. Nothing happens to another one.
    Expire(ApplicationId),
    /// Makes nothing of a request that comes for the first time, and refuses it as not found; else it is answered as before.
    Again,
    /// Notes what became of an effect that was outstanding. Nothing happens where none was.
    Settle(ApplicationId, ApplicationEffect),
}

/// The application that a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeTarget {
    /// That of this id.
    Id(ApplicationId),
    /// The last one of this slot.
    Slot(ApplicationSlot),
}

impl ApplicationChange {
    /// The application that it is about. `None`: it is about none.
    #[must_use]
    pub const fn target(&self) -> Option<ChangeTarget> {
        match self {
            Self::Apply(new) => Some(ChangeTarget::Slot(new.asks.slot(new.applicant))),
            Self::Close(slot, _) => Some(ChangeTarget::Slot(*slot)),
            Self::Decide(id, ..) | Self::Withdraw(id, _) | Self::Expire(id) | Self::Settle(id, _) => {
                Some(ChangeTarget::Id(*id))
            }
            Self::Again => None,
        }
    }
}

/// Why an application was not made or not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplicationRefusal {
    /// It is not pending any more: by what is said here, and by whom, if it was a user.
    #[error("the application is not pending any more")]
    Decided(ApplicationState, Option<UserId>),
    /// As many are pending with the receiver as may be.
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
