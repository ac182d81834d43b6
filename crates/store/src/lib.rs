//! The records that Kith stores, and the contract for backends.
//!
//! Domain types, one small trait per domain, [`StoreError`], and (feature `conformance`) the suite that
//! every backend passes. This crate knows no driver, no gRPC and no cache.
//!
//! Methods named by nouns read (`user`, `groups`), methods named by verbs write (`update_user`). Reads never
//! use a cache, and see every write that was acknowledged before they began; for some seconds after a cluster
//! failover, only [`StrongReads`] guarantees that.

mod application;
mod change;
mod characters;
mod clock;
mod conversation;
mod coordination;
mod dialog;
mod error;
mod feed;
mod group;
mod id;
mod invalid;
mod keyword;
mod member;
mod message;
mod migration;
mod node;
mod node_name;
mod notice;
mod params;
mod reaction;
mod receipt;
mod relation;
mod restore;
mod secret;
mod sequence;
mod strong;
mod text;
mod user;
mod version;
mod write;

#[cfg(feature = "conformance")]
pub mod conformance;

use std::sync::Arc;

pub use application::{
    APPLICATIONS_AT_ONCE, Application, ApplicationBasis, ApplicationChange, ApplicationEffect, ApplicationId,
    ApplicationKey, ApplicationKind, ApplicationList, ApplicationMark, ApplicationPurpose,
    ApplicationRefusal, ApplicationSlot, ApplicationState, ApplicationStore, ApplicationTransition,
    COMPLETION_GRACE, ChangeTarget, Decision, DueApplication, DueApplications, GroupBasis, ListedApplication,
    NewApplication, PendingRequests, Receiver, distinct_ids,
};
pub use change::{
    ChangesEntry, ChangesExtent, ChangesStore, ChangesWriter, ENTRIES_READ_MAX, ENTRY_CHANGES_MAX,
    KeptPositions, pack_changes, unpack_changes,
};
pub use clock::{CLOCKS_APART_MAX, ClockDifference, clocks_agree};
pub use conversation::{Conversation, ConversationStore};
pub use coordination::Coordination;
pub use dialog::{
    DIALOG_EXT_BYTES_MAX, Dialog, DialogKey, DialogList, DialogMark, DialogPatch, DialogPosition,
    DialogStore, MARK_RANGES_MAX, MARKS_AT_ONCE, MarkBase, MarkKind, MarkRaise, MessageHeader, MinSeq,
    ReadMark, ReadRanges, SeqRange, TooManyRanges, UNREAD_RANGES_MAX, Unread, UnreadRange, count_unread,
};
pub use error::{Outcome, StoreError, at_most};
pub use feed::{
    ChangeFeed, FEED_BATCH_MAX, FeedBatch, FeedChange, FeedError, FeedRecord, FeedStream, NamedFeed,
};
pub use group::{
    Group, GroupPatch, GroupStore, GroupType, GroupWords, JoinPolicy, NewGroup, ReceiptVisibility,
    Visibility, group_search_keys,
};
pub use id::{GroupId, IdBlock, IdKind, RelationEventId, UserId};
pub use invalid::Invalid;
pub use keyword::Keyword;
pub use member::{
    Ban, BanRow, Bans, ChangeContext, EARLIER_STAYS_MAX, FormerMember, MEMBER_CHANGES_KEPT, MEMBERS_AT_ONCE,
    Member, MemberChange, MemberChangeEvent, MemberKey, MemberRefusal, MemberRow, MemberStore,
    MembersUpdated, MembershipTransition, Role, Roster, StayHistory,
};
pub use message::{
    AgedDocument, Appended, BODY_BYTES_MAX, CLIENT_MESSAGE_ID_CHARS_MAX, CONTENT_TYPE_CHARS_MAX,
    CompletedTimes, ContentChange, ContentHash, ConversationId, DOCUMENT, DOCUMENTS_READ, DocumentKey,
    DueNote, Edited, Erasure, ErasureCursor, ErasureStore, FanOutNote, FanOutNoteStore, HEADS_AT_ONCE,
    LogDocument, LogEnd, LogHead, MENTIONS_MAX, Message, MessageChange, MessageChangeOutcome, MessageKey,
    MessageKind, MessageStore, MessageUpkeep, NewContent, NewMessage, Recalled, RecalledBy, SEARCHED_AT_ONCE,
    SUCCESSOR_AGE, SentDocuments, Seq, StoredHeader, TRIMMED_AT_ONCE, TrimRemainder, TrimResult, document_of,
    document_parts, in_one_document, removable_documents,
};
pub use migration::{Migration, Migrations};
pub use node::{Epoch, NodeStore};
pub use node_name::NodeName;
pub use notice::{
    Audience, AudienceChange, AudienceEntry, AudienceId, ChangedAudience, EXPIRED_KEPT, MarkedReader,
    NOTICE_AUDIENCES_MAX, NewAudience, NewNotice, Notice, NoticeChange, NoticeChangeResult, NoticeDecision,
    NoticeId, NoticePatch, NoticeReader, NoticeReaderStore, NoticeRefusal, NoticeStore, NoticeTerms,
    NoticeTotals, READERS_AT_ONCE, READERS_SCANNED, ReadBits, ReaderExtent, ReaderId, ReaderKey, ReaderMark,
    ReaderOrdinal, SINCE_CREATION, SLOTS_AT_ONCE, ScannedReader, Slot, pack_entries, unpack_entries,
};
pub use params::{PARAMS_BYTES_MAX, PARAMS_MAX, Params, ParamsPatch};
pub use reaction::{
    ChangedReactions, DecidedReactions, KINDS_OF_MESSAGE_MAX, KINDS_OF_USER_MAX, KindCount, OwnedReaction,
    REACTION_CHANGES_MAX, REACTION_KIND_BYTES_MAX, REACTION_SEQS_MAX, REACTIONS_MAX, Reaction,
    ReactionChange, ReactionKey, ReactionKind, ReactionList, ReactionPosition, ReactionRefusal,
    ReactionState, ReactionStore, ReactionSummary,
};
pub use receipt::{
    MembershipAtSend, OrdinalLists, Receipt, ReceiptCounts, ReceiptState, Seat, SentMessage, SmallestReceipt,
};
pub use relation::{
    Block, BlockChange, BlockList, BlockPatch, BlockStore, CountsRebuilt, Edge, EdgeDifference,
    EdgeDifferenceKind, EdgeUpkeep, EdgesVerified, Follow, FollowCounts, FollowList, FollowStore,
    IMPORT_FOLLOWS_MAX, ImportedFollow, ListPosition, Permissions, RelationEvent, RelationEventKind,
    RelationLog, RemovedEdges,
};
pub use restore::RestoreSkips;
pub use secret::{SecretChange, SecretOwner, SecretStore, StoredSecret};
pub use sequence::{ABOVE_MAX, SEQUENCE_NAME_CHARS_MAX, SEQUENCES_READ, SequenceName, SequenceStore};
pub use strong::StrongReads;
pub(crate) use text::heap_bytes;
pub use text::{Text, fold, icon, prose, single_line};
pub use user::{
    AccessChange, AccessStore, EMAIL_CHARS_MAX, Email, Gender, NAME_CHARS_MAX, NewUser, Phone,
    SUSPENSION_REASON_CHARS_MAX, Suspension, TOKENS_AFTER_DELETION, User, UserAccess, UserName, UserPatch,
    UserStore, skeleton,
};
pub use version::{Timestamp, Version, millis};
pub use write::{Applied, REQUEST_KEPT, Request, RequestId, Stored, Write};

/// The most ids in one batch read.
pub const BATCH_MAX: usize = 500;

/// All stores for relations: a backend implements them in one type.
pub trait RelationStores:
    FollowStore + BlockStore + MemberStore + ApplicationStore + RelationLog + EdgeUpkeep
{
}

impl<T> RelationStores for T where
    T: FollowStore + BlockStore + MemberStore + ApplicationStore + RelationLog + EdgeUpkeep
{
}

/// A backend's stores, as a node needs them.
#[derive(Clone, Debug)]
pub struct Stores {
    /// The store for users.
    pub users: Arc<dyn UserStore>,
    /// Whether users are let in.
    pub accesses: Arc<dyn AccessStore>,
    /// The store for groups.
    pub groups: Arc<dyn GroupStore>,
    /// Stores follows.
    pub follows: Arc<dyn FollowStore>,
    /// Users' settings for others.
    pub blocks: Arc<dyn BlockStore>,
    /// Relation events, for both users.
    pub relation_log: Arc<dyn RelationLog>,
    /// The store for group members.
    pub members: Arc<dyn MemberStore>,
    /// Users' state in their conversations.
    pub dialogs: Arc<dyn DialogStore>,
    /// Settings that conversations have for all their users.
    pub conversations: Arc<dyn ConversationStore>,
    /// Friend requests, and applications to groups.
    pub applications: Arc<dyn ApplicationStore>,
    /// Messages in conversations.
    pub messages: Arc<dyn MessageStore>,
    /// Erasures of users' messages.
    pub erasures: Arc<dyn ErasureStore>,
    /// Reactions to messages.
    pub reactions: Arc<dyn ReactionStore>,
    /// Removes messages.
    pub message_upkeep: Arc<dyn MessageUpkeep>,
    /// Numbers for logs that are kept elsewhere.
    pub sequences: Arc<dyn SequenceStore>,
    /// Audiences and their notices.
    pub notices: Arc<dyn NoticeStore>,
    /// Read marks that audience readers make.
    pub notice_readers: Arc<dyn NoticeReaderStore>,
    /// Maintenance for follows, their places and counts.
    pub edges: Arc<dyn EdgeUpkeep>,
    /// Strong reads for users and groups, which never return an earlier state.
    pub strong: Arc<dyn StrongReads>,
    /// Hashed and encrypted secrets.
    pub secrets: Arc<dyn SecretStore>,
    /// Id blocks, epoch, keys, liveness.
    pub node: Arc<dyn NodeStore>,
    /// Runs migrations.
    pub migrations: Arc<dyn Migrations>,
    /// Leases and marks.
    pub coordination: Arc<dyn Coordination>,
    /// Fan-out notes that Redis did not take. `None`: no other node uses the store.
    pub fan_out_notes: Option<Arc<dyn FanOutNoteStore>>,
    /// Changes that are kept for other systems.
    pub changes: Arc<dyn ChangesStore>,
    /// Keeps what a feed's reader has read. `None`: each commit keeps its changes itself.
    pub changes_writer: Option<Arc<dyn ChangesWriter>>,
    /// Record changes, from one feed or several, which together deliver everything. Empty if only this
    /// process can write.
    pub feeds: Vec<NamedFeed>,
}
