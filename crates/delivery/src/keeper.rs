//! The window storage contract, and its calls' types. A fill needs a lease, and a hold prevents fills while a
//! message in the conversation is being changed.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::{Moment, remote::SharedError};
use kith_store::{ConversationId, NodeName, Seq};

/// A time by the clock on the server that stores an epoch's windows. Not comparable between epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerTime {
    /// The epoch's number.
    pub epoch: u64,
    /// Milliseconds; 0: earlier than anything.
    pub ms: i64,
}

/// The lease with which a reader may fill a window. Random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseToken(pub u128);

/// The id for a window's hold. Random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldToken(pub u128);

/// Numbers from `first` to `last`, both included; none if `last` is below `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first number.
    pub first: Seq,
    /// The last number.
    pub last: Seq,
}

/// A lookup's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowLookup {
    /// The window was found.
    Hit {
        /// What is known of the window.
        window: WindowSnapshot,
        /// The entries for the requested numbers that the window has, by rising number.
        entries: Vec<Bytes>,
    },
    /// No window. The caller has the lease: it may fill the window with what it reads from the store after
    /// this.
    Miss {
        /// When the lookup was made.
        at: ServerTime,
    },
    /// No window, and another reader has the lease.
    Busy,
    /// A message is being changed: there is no window, and none may be filled.
    Held,
}

/// A window as a lookup found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSnapshot {
    /// When the lookup was made.
    pub at: ServerTime,
    /// The messages that the window has; the last is where the log ends as the window knows it.
    pub span: Span,
    /// Time since the log was known not to end above the window. `None`: that is not known.
    pub age: Option<Duration>,
}

/// A window's new content.
#[derive(Clone, Debug)]
pub struct Fill {
    /// The window's conversation.
    pub conversation: ConversationId,
    /// The filler's lease.
    pub token: LeaseToken,
    /// When the lookup was made that gave the lease. The entries were read after it.
    pub at: ServerTime,
    /// The numbers of the entries; the last is where the log ended when it was read.
    pub span: Span,
    /// The window's entries. With headers: those before the last message in a row, unless there are none,
    /// and the last entry.
    pub entries: Vec<Bytes>,
    /// Whether the window has headers. Such a window answers [`WindowKeeper::heads`] alone, and
    /// the reader of messages who gets the lease replaces it.
    pub has_headers: bool,
}

/// A fill's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillOutcome {
    /// The window is there.
    Stored,
    /// The lease was lost: a message was or is being changed, another reader has the lease, or nothing is
    /// known about it.
    Lost,
    /// The log has messages above those that were read. The lease is kept.
    Below,
}

/// Messages that were appended to the log.
#[derive(Clone, Debug)]
pub struct Append {
    /// The entries' numbers; not empty.
    pub span: Span,
    /// The added entries.
    pub entries: Vec<Bytes>,
    /// Whether an entry is the event for a change to an earlier message.
    pub changes: bool,
    /// When the append to the log began, or earlier, by this node's clock. `None`: not known.
    pub began: Option<Moment>,
}

/// A log's known end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// The log's conversation.
    pub conversation: ConversationId,
    /// When the lookup was made after which the end was read.
    pub at: ServerTime,
    /// The last message's number.
    pub end: Seq,
}

/// Why a window was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The messages before those that were appended are missing.
    Gap,
    /// A message in it was changed.
    Change,
    /// A hold began or ended.
    Hold,
    /// The log has messages above it.
    Behind,
    /// The server has lost part of it.
    Evicted,
}

/// A window's head, for lists of conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadLookup {
    /// A window. Its last entry belongs to `span.last`.
    Hit {
        /// What is known of the window.
        window: WindowSnapshot,
        /// The last entry; `None`: the log is empty.
        last: Option<Bytes>,
        /// The headers for the numbers above the requested number that the window has, in a row.
        headers: Bytes,
    },
    /// No window, or one without its last message.
    Miss {
        /// When the lookup was made, if it gave the caller the lease: it may fill a window of headers with
        /// what it reads from the store after this.
        lease: Option<ServerTime>,
    },
    /// A message is being changed.
    Held,
}

/// The storage for all conversations' windows, for all nodes.
///
/// Each call is one step in one window, atomic and isolated. Windows may disappear at any time, as a whole or
/// in part, and all do when the epoch changes. A failed call may have been applied, or may be applied later:
/// every call is safe then, because each carries the time at which its data was read, and none uses its
/// arrival time.
#[async_trait]
pub trait WindowKeeper: Send + Sync + fmt::Debug + 'static {
    /// Reads the entries that `asked` names and the window has. If there is no window, and it is not held,
    /// and no lease is alive, the caller gets the lease.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn look_up(
        &self,
        conversation: ConversationId,
        asked: Span,
        token: LeaseToken,
    ) -> Result<WindowLookup, SharedError>;

    /// Makes windows, each if the caller still has its lease, the window is not held, and the log is not
    /// known to have messages above the fill's.
    ///
    /// # Errors
    /// Each window's own: if the epoch's server does not answer, or the epoch differs from [`Fill::at`]'s.
    async fn fill(&self, fills: &[Fill]) -> Vec<Result<FillOutcome, SharedError>>;

    /// Adds messages to the window, and records that the log has them. Drops the window if messages between
    /// are missing, or if a missing message is a change's event. Without a window, it only records. Messages
    /// that the window has are skipped.
    ///
    /// Returns the nodes that are registered at the conversation, as
    /// [`InboxKeeper::registered`](crate::InboxKeeper::registered) does.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn append(
        &self,
        conversation: ConversationId,
        append: &Append,
    ) -> Result<Vec<NodeName>, SharedError>;

    /// Drops the window and ends its lease. For this time, or until the release, no window can be filled.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn hold(
        &self,
        conversation: ConversationId,
        token: HoldToken,
        time: Duration,
    ) -> Result<(), SharedError>;

    /// Drops the window, ends its lease and this hold. When it returns, no node can be answered by a window
    /// that was filled before this call, in any epoch.
    ///
    /// # Errors
    /// If the server of the epoch or the epoch store does not answer, or another epoch has begun.
    async fn release(&self, conversation: ConversationId, token: HoldToken) -> Result<(), SharedError>;

    /// Records for each window where its log ends, and drops windows that end below. Answers in `known`'s
    /// order; it is not atomic.
    ///
    /// # Errors
    /// If the epoch's server does not answer, or the epoch differs from [`Confirm::at`]'s.
    async fn confirm(&self, known: &[Confirm]) -> Vec<Result<(), SharedError>>;

    /// Reads where windows end, and the headers above a number. Where there is no window, and it is not held,
    /// and no lease is alive, the caller gets the lease. Answers in `asked`'s order; it is not atomic.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn heads(
        &self,
        asked: &[(ConversationId, Seq)],
        token: LeaseToken,
    ) -> Vec<Result<HeadLookup, SharedError>>;

    /// Makes the next reader compare the window's end with the store.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn require_check(&self, conversation: ConversationId) -> Result<(), SharedError>;
}

impl Span {
    /// How many numbers it spans.
    #[must_use]
    pub fn count(self) -> usize {
        usize::try_from(self.last - self.first + 1).unwrap_or(0)
    }

    /// The numbers that both have.
    #[must_use]
    pub fn overlap(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }
}
