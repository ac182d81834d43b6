//! The store for reactions.

use std::fmt;

use async_trait::async_trait;

use super::{ChangedReactions, Reaction, ReactionChange, ReactionKey, ReactionKind, ReactionSummary};
use crate::{ConversationId, DocumentKey, Seq, StoreError, Timestamp, UserId};

/// The most changes in one [`ReactionStore::change_reactions`].
pub const REACTION_CHANGES_MAX: usize = 100;
/// The most messages in one [`ReactionStore::own_reactions`].
pub const REACTION_SEQS_MAX: usize = 100;

/// The reactions to a message with one kind, by time and user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReactionList {
    /// The message's conversation.
    pub conversation: ConversationId,
    /// The message's number.
    pub seq: Seq,
    /// The kind that all of them have.
    pub kind: ReactionKind,
}

/// A place in a [`ReactionList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReactionPosition {
    /// When the reaction was made.
    pub at: Timestamp,
    /// The user who made it.
    pub user: UserId,
}

/// A user's reaction in any conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedReaction {
    /// The conversation.
    pub conversation: ConversationId,
    /// Identifies it there.
    pub key: ReactionKey,
}

/// Storage for reactions.
///
/// Invariants: a summary counts exactly the rows of its document, and a row's message exists and has its
/// content. A change of a message that removes the content, and a message's removal, remove its reactions in
/// the same transaction. The caller checks who may react.
#[async_trait]
pub trait ReactionStore: Send + Sync + fmt::Debug + 'static {
    /// Reads the summaries that exist, of up to [`BATCH_MAX`](crate::BATCH_MAX) documents, in any order.
    /// Costs one read.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more.
    async fn reaction_summaries(&self, keys: &[DocumentKey]) -> Result<Vec<ReactionSummary>, StoreError>;

    /// Makes changes to messages of one document, at most [`REACTION_CHANGES_MAX`], in their order, and
    /// returns the summary with each one's result: rows and summary in one transaction. May be repeated,
    /// whatever its outcome was. Changes on several nodes are made one after the other.
    ///
    /// # Errors
    /// See [`StoreError::outcome`]; [`StoreError::Overloaded`] for more changes.
    async fn change_reactions(
        &self,
        key: DocumentKey,
        changes: &[ReactionChange],
    ) -> Result<ChangedReactions, StoreError>;

    /// Reads a part of a list: the reactions behind a position, by time and user, at most `limit`.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn reactions(
        &self,
        list: &ReactionList,
        after: Option<ReactionPosition>,
        limit: usize,
    ) -> Result<Vec<Reaction>, StoreError>;

    /// Reads a user's reactions to these messages, at most [`REACTION_SEQS_MAX`], in any order.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more.
    async fn own_reactions(
        &self,
        conversation: ConversationId,
        user: UserId,
        seqs: &[Seq],
    ) -> Result<Vec<ReactionKey>, StoreError>;

    /// Reads some of a user's reactions in all conversations, at most `limit`, those of a conversation
    /// together. Sees every acknowledged change, except for some seconds after a failover.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn reactions_of(&self, user: UserId, limit: usize) -> Result<Vec<OwnedReaction>, StoreError>;
}
