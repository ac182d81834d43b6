use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    AudienceId, ConversationId, DialogKey, DocumentKey, Edge, GroupId, MemberKey, NoticeId, StoreError,
    UserId, Version,
};

/// Most changes in one [`Batch`].
pub const FEED_BATCH_MAX: usize = 256;

/// The changes of records in a store, whether made by this program or by hand.
#[async_trait]
pub trait ChangeFeed: Send + Sync + fmt::Debug + 'static {
    /// Begins after the mark of an earlier batch, or now: what is written after this returned is delivered.
    ///
    /// Each change after the mark is delivered at least once. Holds a connection until it is dropped.
    ///
    /// # Errors
    /// See [`FeedError`].
    async fn open(&self, after: Option<&[u8]>) -> Result<Box<dyn Changes>, FeedError>;
}

/// One feed of several.
#[derive(Clone, Debug)]
pub struct NamedFeed {
    /// Names its lease and its mark; never changes.
    pub name: String,
    /// The feed.
    pub feed: Arc<dyn ChangeFeed>,
}

/// Changes in the order in which they were made; those of one record by rising version, but for hand edits.
#[async_trait]
pub trait Changes: Send + fmt::Debug + 'static {
    /// The next changes, at most [`FEED_BATCH_MAX`]; waits so long for the first. None after that: an empty batch,
    /// whose mark may have moved on, since much is written that is no record.
    ///
    /// A record that was changed by hand is given a version of its own before the change is returned, whether the change
    /// left the version, set it or removed it. A call that is dropped loses nothing.
    ///
    /// # Errors
    /// See [`FeedError`]. After one, open again with the last mark; nothing more comes here.
    async fn next(&mut self, patience: Duration) -> Result<Batch, FeedError>;
}

/// Some changes, and where they end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In order.
    pub changes: Vec<FeedChange>,
    /// Where to go on once these are dealt with. Means nothing to another store.
    pub mark: Vec<u8>,
}

/// A record has changed, or was made or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedChange {
    /// Which one.
    pub record: FeedRecord,
    /// The version of the record after the change; of a change by hand, the version that the feed gave it. `None`:
    /// unknown, as of a document that was removed by hand.
    pub version: Option<Version>,
    /// Whether something other than this program changed the record. Copies of any version may be wrong then,
    /// also of versions above this one: the change may have set the version back.
    pub by_hand: bool,
}

/// Names a record of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FeedRecord {
    /// A user.
    User(UserId),
    /// A group.
    Group(GroupId),
    /// A follow.
    Follow(Edge),
    /// What one user has set about another one.
    Block(Edge),
    /// A member, in the group or not any more, and with it the roster of the group.
    Member(MemberKey),
    /// What all members of a group have in common, and none of them.
    Roster(GroupId),
    /// What a user keeps about a conversation.
    Dialog(DialogKey),
    /// What is set for all users of a conversation.
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
    /// What came after the mark can no longer be delivered, or the mark cannot be read: any record may have changed. To
    /// miss nothing, open without a mark first and then discard all copies.
    #[error("the changes after the mark are lost")]
    Lost,
    /// The store cannot be reached, or does not answer in time. Nothing is lost.
    #[error("the store delivers no changes now")]
    Away(#[source] StoreError),
}
