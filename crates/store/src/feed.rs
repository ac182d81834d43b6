//! The change feeds of a store.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    AudienceId, ConversationId, DialogKey, DocumentKey, Edge, GroupId, MemberKey, NoticeId, StoreError,
    Timestamp, UserId, Version,
};

/// Most changes in one [`FeedBatch`].
pub const FEED_BATCH_MAX: usize = 256;

/// The changes of records in a store, whether made by this program or by hand.
#[async_trait]
pub trait ChangeFeed: Send + Sync + fmt::Debug + 'static {
    /// Begins after the mark of an earlier batch, or now: every write after the call returned is delivered.
    ///
    /// Each change after the mark is delivered at least once. Holds a connection until it is dropped.
    ///
    /// # Errors
    /// See [`FeedError`].
    async fn open(&self, after: Option<&[u8]>) -> Result<Box<dyn FeedStream>, FeedError>;
}

/// One feed of several.
#[derive(Clone, Debug)]
pub struct NamedFeed {
    /// Name of its lease and its mark; never changes.
    pub name: String,
    /// The feed.
    pub feed: Arc<dyn ChangeFeed>,
}

/// Changes in their order; those of one record by rising version, except changes by hand.
#[async_trait]
pub trait FeedStream: Send + fmt::Debug + 'static {
    /// The next changes, at most [`FEED_BATCH_MAX`]. Waits up to `patience` for the first one, then returns an empty
    /// batch. Its mark may have advanced, because many writes concern no record.
    ///
    /// A record that was changed by hand is given a version of its own before the change is returned, whether the change
    /// left the version, set it or removed it. A call that is dropped loses nothing.
    ///
    /// # Errors
    /// See [`FeedError`]. After an error, open again with the last mark; this feed returns no more changes.
    async fn next(&mut self, patience: Duration) -> Result<FeedBatch, FeedError>;
}

/// A batch of changes, and the mark of its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedBatch {
    /// In order.
    pub changes: Vec<FeedChange>,
    /// The mark from which to continue after these changes. Valid only for this store.
    pub mark: Vec<u8>,
    /// Whether these are the last changes there are, as far as is known.
    pub is_last: bool,
    /// When the oldest of these changes was written, by the clock of the store or of its writer. `None`: unknown, or there
    /// are no changes.
    pub written: Option<Timestamp>,
}

/// A record was created, changed or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedChange {
    /// The record.
    pub record: FeedRecord,
    /// The version of the record after the change; of a change by hand, the version that the feed gave it. `None`:
    /// unknown, as of a document that was removed by hand.
    pub version: Option<Version>,
    /// Whether the record was changed by hand, not by this program. Copies of any version may be wrong then, also of
    /// versions above this one: the change may have set the version back.
    pub by_hand: bool,
}

/// The key of a record of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FeedRecord {
    /// A user.
    User(UserId),
    /// A group.
    Group(GroupId),
    /// A follow.
    Follow(Edge),
    /// The settings of a user for another one.
    Block(Edge),
    /// A present or former member, and with it the roster of the group.
    Member(MemberKey),
    /// The roster of a group, without its members.
    Roster(GroupId),
    /// The state of a user in a conversation.
    Dialog(DialogKey),
    /// The settings of a conversation for all its users.
    Conversation(ConversationId),
    /// Messages of a conversation, one of which was changed.
    Document(DocumentKey),
    /// An audience, with the entries of its notices.
    Audience(AudienceId),
    /// A notice.
    Notice(NoticeId),
}

/// Why a feed ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FeedError {
    /// Changes after the mark can no longer be delivered, or the mark cannot be read: any record may have changed. Open
    /// without a mark first, then discard all copies.
    #[error("the changes after the mark are lost")]
    Lost,
    /// The store cannot be reached, or does not answer in time. Nothing is lost.
    #[error("the store delivers no changes now")]
    Unavailable(#[source] StoreError),
}
