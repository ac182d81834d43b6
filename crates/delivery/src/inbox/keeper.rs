//! The inbox storage contract, and its calls' types. The implementations in memory and in Redis pass the same
//! conformance suite.

use std::{collections::BTreeMap, fmt, time::Duration};

use async_trait::async_trait;
use kith_cache::remote::SharedError;
use kith_store::{ConversationId, NodeName, Seq, UserId};

use super::{NodeWake, Note, SentMessages, WakeSubscription};

/// An entry's position in its inbox: 1, 2, 3 and so on.
pub type Position = u64;

/// An inbox generation. A new generation begins when the earlier was lost or has expired. Positions in
/// different generations are unrelated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation {
    /// The epoch. A generation does not outlive its epoch.
    pub epoch: u64,
    /// Identifies the generation within its epoch. Random, above 0.
    pub number: u64,
}

/// An inbox that a node has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedInbox {
    /// The generation.
    pub generation: Generation,
    /// The last entry's position; 0: there is none.
    pub position: Position,
    /// Whether all the user's conversations have a mark. If not, a receiver begins with
    /// [`InboxKeeper::mark`].
    pub complete: bool,
}

/// A fan-out's result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FanOutResult {
    /// One wake for each node to be woken. The caller publishes them.
    pub wakes: Vec<NodeWake>,
    /// Users without a live receiver, whether or not they have an inbox; as far as the keeper answered.
    pub without_receiver: Vec<UserId>,
    /// Why some users' inboxes may be without the entry. The fan-out is repeated then, for all users.
    pub failed: Option<SharedError>,
}

/// A conversation's known end when a receiver begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The conversation.
    pub conversation: ConversationId,
    /// Its end, read from the store after the inbox was opened.
    pub end: Seq,
}

/// The result when marks are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkOutcome {
    /// The generation has ended.
    Reset,
    /// The marks are set.
    Marks(Marks),
}

/// An inbox's marks after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// For each conversation, in the call's order: the number up to which the entries reach, not below its
    /// end. The conversation's later entries are above it.
    pub marks: Vec<Seq>,
    /// The last entry's position.
    pub position: Position,
    /// How many conversations have a mark. If the inbox was not complete when a receiver opened it, and this
    /// is more than the receiver knows after its last call, another receiver began at the same time and knew
    /// more: it reads the user's conversations again, and gives those that are new to it.
    pub conversations: u64,
    /// Nodes with other receivers for the user, where the call wrote entries. The caller publishes them.
    pub wakes: Vec<NodeWake>,
}

/// An inbox entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A conversation's messages.
    Range {
        /// The conversation.
        conversation: ConversationId,
        /// The first number, which follows the last number in the entry before; `None`: the conversation is
        /// new to the inbox, so the entry has every message up to the last one.
        first: Option<Seq>,
        /// The last number.
        last: Seq,
    },
    /// A note, not a message.
    Note(Note),
    /// A kind that this program does not know. It is skipped.
    Unknown,
}

/// Where a receiver continues to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFrom {
    /// The receiver's user.
    pub user: UserId,
    /// The position's generation.
    pub generation: Generation,
    /// The last position that the receiver has.
    pub after: Position,
}

/// Receivers on a node that has said for a while neither that it runs nor that it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedReceivers {
    /// The silent node.
    pub node: NodeName,
    /// For how long the node has been silent.
    pub silent_for: Duration,
    /// Some users that it had receivers for, and what these had confirmed; none: no user is left.
    pub confirmed: Vec<ReadFrom>,
}

/// The result when a receiver reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The receiver cannot continue: the generation has ended, or the inbox does not reach back.
    Reset,
    /// The entries after the position, by rising position, without gaps; none if there are no more.
    Entries(Vec<(Position, Entry)>),
}

/// The storage for all users' inboxes.
///
/// An inbox exists from a user's first [`open`](Self::open) until [`InboxLimits::kept`](crate::InboxLimits)
/// after the last. It has a mark for each conversation: the number up to which its entries reach. Invariant:
/// a conversation's ranges in a generation are contiguous and rise, whatever order fan-outs arrive in and
/// however often. So an entry repairs all entries that were lost before it.
///
/// Each change is one step in one inbox, atomic and isolated. Inboxes may disappear at any time, as a whole
/// or in part; all do when the epoch changes. This ends the generation, and receivers see that:
/// [`ReadOutcome::Reset`], [`MarkOutcome::Reset`], another generation in [`OpenedInbox`], or a wake. A call
/// that fails may have been made, or may be made yet, however late; each is safe then.
#[async_trait]
pub trait InboxKeeper: Send + Sync + fmt::Debug + 'static {
    /// Enters messages into each recipient's inbox, if there is one: the range from the mark to
    /// [`SentMessages::last`]. The store has all messages in the conversation up to it, and there are at most
    /// [`InboxLimits::users_at_once`](crate::InboxLimits) recipients. An inbox whose mark is not below it is
    /// left as it is. May be repeated, late, or after later messages' fan-out.
    ///
    /// Costs one round trip, and another if more than 32 have an inbox; one script for 32 inboxes, which
    /// share one of 16 buckets in a Redis Cluster. Without an inbox the script only counts them. Returns in
    /// [`FanOutResult`] what each user got, also after a failure: it is not atomic.
    async fn fan_out(&self, sent: &SentMessages, users: &[UserId]) -> FanOutResult;

    /// Counts the node among those with receivers for each user, for
    /// [`InboxLimits::receiver_kept`](crate::InboxLimits), and makes an inbox where there is none. Called
    /// again in time, it renews. From here on every entry wakes the node. Answers in `users`' order; it is
    /// not atomic. When it returns, no node writes to an earlier epoch's inboxes what is not in the store
    /// yet.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn open(&self, node: &NodeName, users: &[UserId]) -> Vec<Result<OpenedInbox, SharedError>>;

    /// Ends what [`open`](Self::open) began, when the node has no receiver for the user any more. The inbox
    /// stays.
    ///
    /// # Errors
    /// If the epoch's server does not answer. The node counts as a node with receivers for its time then.
    async fn close(&self, node: &NodeName, user: UserId) -> Result<(), SharedError>;

    /// Raises conversations' marks to their ends, and enters what is new by that for the user's other
    /// receivers. At most [`InboxLimits::marks_at_once`](crate::InboxLimits) a call; `complete` is set in the
    /// last call for a user, which had or has all its conversations. From then on a conversation without a
    /// mark is new to the user.
    ///
    /// A receiver without a position opens the inbox, reads the user's conversations and their ends from the
    /// store, and gives them here. Then it delivers from the log up to the returned marks, continues after
    /// the position that [`open`](Self::open) returned, and up to its last call's position leaves out what is
    /// at or below these marks. See [`Marks::conversations`] for an inbox that was not complete.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn mark(
        &self,
        user: UserId,
        generation: Generation,
        marks: &[Mark],
        complete: bool,
    ) -> Result<MarkOutcome, SharedError>;

    /// Reads entries, at most `most` for each receiver. Answers in `from`'s order; it is not atomic. Costs
    /// one round trip.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn read(&self, from: &[ReadFrom], most: usize) -> Vec<Result<ReadOutcome, SharedError>>;

    /// Enters a note into the user's inbox, if it has one. Returns the wakes, which the caller publishes;
    /// none without a live receiver. Repeated, it is entered again.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn note(&self, user: UserId, note: Note) -> Result<Vec<NodeWake>, SharedError>;

    /// Returns the users among these who have a live receiver, each with the nodes of its receivers. One
    /// round trip.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn receiving(&self, users: &[UserId]) -> Result<BTreeMap<UserId, Vec<NodeName>>, SharedError>;

    /// Publishes wakes, in one round trip. A wake may be lost: receivers also read from time to time without
    /// a wake.
    ///
    /// # Errors
    /// If the epoch's server does not answer. Some may be published.
    async fn publish(&self, wakes: &[NodeWake]) -> Result<(), SharedError>;

    /// Subscribes to a node's wakes. Each call is a separate subscription; a node has a single subscription.
    fn subscribe(&self, node: &NodeName) -> Box<dyn WakeSubscription>;

    /// Says that the node runs, and for these users up to which entry its receivers have confirmed the inbox.
    /// At most [`InboxLimits::marks_at_once`](crate::InboxLimits) users a call. An earlier entry for such a
    /// user is replaced, and entries for other users stay for
    /// [`InboxLimits::receiver_kept`](crate::InboxLimits). Everything outlives epochs, and is kept for an
    /// hour after the node said something.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn confirm(&self, node: &NodeName, confirmed: &[ReadFrom]) -> Result<(), SharedError>;

    /// Forgets what a node has confirmed for these users, and the node if no user is left and it has been
    /// silent for `silent_for`. May be repeated.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn forget(
        &self,
        node: &NodeName,
        users: &[UserId],
        silent_for: Duration,
    ) -> Result<(), SharedError>;

    /// The nodes that have not called [`confirm`](Self::confirm) for this long, each with at most `most`
    /// users. A node that was paused or cut off may be among them, and call again.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn abandoned(
        &self,
        silent_for: Duration,
        most: usize,
    ) -> Result<Vec<AbandonedReceivers>, SharedError>;

    /// Has the node woken for messages in these conversations, which are not written to inboxes, for
    /// [`InboxLimits::receiver_kept`](crate::InboxLimits). Called again in time, it renews.
    ///
    /// # Errors
    /// If the epoch's server does not answer. Some may be registered.
    async fn register(&self, node: &NodeName, conversations: &[ConversationId]) -> Result<(), SharedError>;

    /// The nodes that are registered at a conversation, for [`Wake::Conversation`](super::Wake).
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn registered(&self, conversation: ConversationId) -> Result<Vec<NodeName>, SharedError>;
}
