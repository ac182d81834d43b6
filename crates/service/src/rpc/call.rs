//! A call's context, and the metadata of an answer.

use std::time::Duration;

use kith_cache::Position;
use kith_store::{Timestamp, UserId};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::{
    error::Error,
    rpc::{
        answer_size::ANSWER_BYTES,
        rights::{CallerId, Rights},
    },
};

/// A method's answer on the wire.
pub(crate) type RpcResult<T> = Result<Response<T>, Status>;

/// The edge puts it into every request's extensions, before any handler sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// When the caller stops waiting; never later than the largest deadline that the node allows.
    pub deadline: Instant,
    /// The acting user or service.
    pub principal: Principal,
    /// The caller's scopes. The edge has checked the method's scope.
    pub rights: Rights,
    /// The caller's id: different callers' request ids are distinct.
    pub caller: CallerId,
    /// Whether another node in the cluster calls, and means only this node.
    pub by_node: bool,
    /// Whether the acting user itself calls, by its own token, and not a service for it. See
    /// [`Self::is_user`].
    pub by_user: bool,
    /// The record bytes that an answer may have. Fewer on sockets, whose clients take smaller messages.
    pub answer_bytes: usize,
    /// Whether the node reads this to deliver it to the user, such as the conversation list that a hello asks
    /// for. A socket may be opened again at any moment, so that what is delivered is not counted as records.
    pub delivers: bool,
    /// Whether the acting user is let in.
    pub access: CallAccess,
    /// What the session of the call demands.
    pub session: CallSession,
}

/// What the session of a call (metadata `kith-session`) demands of its reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSession {
    /// Whether the call belongs to a session that has been answered before.
    pub is_carried: bool,
    /// The position that this node has not reached; `None`: its memory has everything that the session
    /// demands.
    pub demand: Option<Position>,
}

/// Decides whether a call's acting user is let in, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallAccess {
    /// When the user's token was issued; `None`: the user is believed without one.
    pub issued: Option<Timestamp>,
    /// How many accounts with the acting user's id were deleted before: what began for another account is not
    /// continued. 0 if no user acts.
    pub account: u32,
    /// Whether the call changes something: it fails if it is unknown whether the user is let in.
    pub writes: bool,
    /// Whether the call is a stream: it ends when the user is let in no more.
    pub streams: bool,
}

impl Call {
    /// A call that Kith makes itself, such as for a record that it is started with. There is no `Default`: a
    /// caller's call that got these rights by mistake would have all rights.
    #[must_use]
    pub const fn internal(deadline: Instant) -> Self {
        Self {
            deadline,
            principal: Principal::Service,
            rights: Rights::ALL,
            caller: CallerId::DEFAULT,
            by_node: false,
            by_user: false,
            answer_bytes: ANSWER_BYTES,
            delivers: false,
            access: CallAccess { issued: None, account: 0, writes: false, streams: false },
            session: CallSession { is_carried: false, demand: None },
        }
    }

    /// Whether a user itself calls. A caller that acts for a user is a service.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.by_user
    }

    /// The user who itself calls; `None`: a service, also if it acts for a user.
    #[must_use]
    pub const fn user_itself(self) -> Option<UserId> {
        if self.by_user { self.principal.user() } else { None }
    }

    /// The call for a request that came through the edge, and its message.
    ///
    /// # Panics
    /// Panics like [`Self::of`].
    pub(crate) fn open<T>(request: Request<T>) -> (Self, T) {
        (Self::of(&request), request.into_inner())
    }

    /// The call for a request that came through the edge.
    ///
    /// # Panics
    /// If it did not: the edge is in front of every service.
    #[must_use]
    pub fn of<T>(request: &Request<T>) -> Self {
        *request.extensions().get::<Self>().expect("every request passes the edge")
    }
}

/// The acting user or service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal {
    /// The calling service itself, with all its caller's rights.
    Service,
    /// This user: through a service (metadata `kith-acting-user`), or itself ([`Call::is_user`]).
    User(UserId),
}

impl Principal {
    /// The acting user; `None`: a service.
    #[must_use]
    pub const fn user(self) -> Option<UserId> {
        match self {
            Self::Service => None,
            Self::User(user) => Some(user),
        }
    }
}

/// Checks that the principal is this user, or a service.
///
/// # Errors
/// PERMISSION_DENIED.
pub(crate) fn own(user: UserId, principal: Principal) -> Result<(), Error> {
    match principal {
        Principal::User(principal) if principal != user => {
            Err(Error::not_allowed("only the user named by user_id and services may do this"))
        }
        Principal::User(_) | Principal::Service => Ok(()),
    }
}

/// Checks that a service acts, for requests that a message field reserves to services. Methods that are for
/// services only are declared in the contract (`kith.type.v1.access`), and the edge enforces it.
///
/// # Errors
/// PERMISSION_DENIED for users.
pub(crate) fn only_services(principal: Principal) -> Result<(), Error> {
    match principal {
        Principal::Service => Ok(()),
        Principal::User(_) => Err(Error::not_allowed("only services may do this")),
    }
}

/// A handler puts it into an answer's extensions; the edge turns it into trailing metadata.
#[derive(Clone, Copy, Debug)]
pub struct AnswerMetadata {
    /// `memory`, `redis` or `store`.
    pub tier: &'static str,
    /// The record's version.
    pub version: i64,
    /// How long ago it was read from the store.
    pub age: Duration,
}

impl AnswerMetadata {
    /// An entry's metadata.
    #[must_use]
    pub fn of<V>(entry: &kith_cache::Entry<V>) -> Self {
        let version = i64::try_from(entry.version.get()).unwrap_or(i64::MAX);
        Self { tier: entry.tier.as_str(), version, age: entry.age }
    }

    /// The metadata for a record that was read from the store for this answer.
    #[must_use]
    pub const fn from_store(version: i64) -> Self {
        Self { tier: "store", version, age: Duration::ZERO }
    }

    /// The answer with this message.
    pub(crate) fn answer<T>(self, message: T) -> Response<T> {
        let mut response = Response::new(message);
        response.extensions_mut().insert(self);
        response
    }
}
