//! A store's change feeds.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    AudienceId, ConversationId, DialogKey, DocumentKey, Edge, GroupId, MemberKey, NoticeId, SeqRange,
    StoreError, Timestamp, UserId, Version,
};

/// The most changes in one [`FeedBatch`].
pub const FEED_BATCH_MAX: usize = 256;

/// The changes to records in a store, whether made by this program or by hand.
#[async_trait]
pub trait ChangeFeed: Send + Sync + fmt::Debug + 'static {
    /// Begins after an earlier batch's mark, or now: every write after the call returned is delivered.
    ///
    /// Each change after the mark is delivered at least once. Holds a connection until it is dropped.
    ///
    /// # Errors
    /// See [`FeedError`].
    async fn open(&self, after: Option<&[u8]>) -> Result<Box<dyn FeedStream>, FeedError>;
}

/// A feed with its name.
#[derive(Clone, Debug)]
pub struct NamedFeed {
    /// The name for its lease and its mark; never changes.
    pub name: String,
    /// The feed itself.
    pub feed: Arc<dyn ChangeFeed>,
}

/// Changes in their order; changes to one record by rising version, except changes by hand.
#[async_trait]
pub trait FeedStream: Send + fmt::Debug + 'static {
    /// The next changes, at most [`FEED_BATCH_MAX`]. Waits up to `patience` for the first change, then
    /// returns an empty batch. Its mark may have advanced, because many writes concern no record.
    ///
    /// A record that was changed by hand is given a new version before the change is returned, whether the
    /// change left the version, set it or removed it. A call that is dropped loses nothing.
    ///
    /// # Errors
    /// See [`FeedError`]. After an error, open again with the last mark; this feed returns no more changes.
    async fn next(&mut self, patience: Duration) -> Result<FeedBatch, FeedError>;
}

/// Several changes, and the mark at their end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedBatch {
    /// The changes in order.
    pub changes: Vec<FeedChange>,
    /// The mark from which to continue after these changes. Valid only for this store.
    pub mark: Vec<u8>,
    /// Whether these are the last changes there are, as far as is known.
    pub is_last: bool,
    /// When the oldest change was written, by the clock of the store or its writer. `None`: unknown, or there
    /// are no changes.
    pub written: Option<Timestamp>,
}

/// A record was created, changed or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedChange {
    /// The changed record.
    pub record: FeedRecord,
    /// The record's version after the change; for a change by hand, the version that the feed gave it.
    /// `None`: unknown, for example for a document that was removed by hand.
    pub version: Option<Version>,
    /// Whether the record was changed by hand, not by this program. Copies with any version may be wrong
    /// then, also with versions above this: the change may have set the version back.
    pub by_hand: bool,
}

/// Identifies a record of any kind. The order of the kinds is a part of the stored form: a new kind comes
/// last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FeedRecord {
    /// A user's record.
    User(UserId),
    /// A group record.
    Group(GroupId),
    /// A follow record.
    Follow(Edge),
    /// A user's settings for another user.
    Block(Edge),
    /// A present or former member, and with it the group's roster.
    Member(MemberKey),
    /// A group's roster, without its members.
    Roster(GroupId),
    /// A user's state in a conversation.
    Dialog(DialogKey),
    /// A conversation's settings for all its users.
    Conversation(ConversationId),
    /// Messages in a conversation, at least one changed.
    Document(DocumentKey),
    /// Messages were appended to a conversation: from the first number to the last. May begin with earlier
    /// messages, which are repeated then. Feeds deliver these only where changes are kept; no copy depends on
    /// them.
    Messages(ConversationId, SeqRange),
    /// An audience, with the entries of its notices.
    Audience(AudienceId),
    /// A notice record.
    Notice(NoticeId),
    /// Reactions to messages in a document.
    Reactions(DocumentKey),
}

/// Why a feed ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FeedError {
    /// Changes after the mark can no longer be delivered, or the mark cannot be read: any record may have
    /// changed. Open without a mark first, then discard all copies.
    #[error("the changes after the mark are lost")]
    Lost,
    /// The store cannot be reached, or does not answer in time. Nothing is lost.
    #[error("the store delivers no changes now")]
    Unavailable(#[source] StoreError),
}
