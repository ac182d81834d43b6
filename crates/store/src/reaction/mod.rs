//! Reactions of users to messages: rows, and one summary for each document of messages.

mod change;
mod kind;
mod store;
mod summary;

use serde::{Deserialize, Serialize};

pub use change::{ChangedReactions, DecidedReactions, ReactionChange, ReactionRefusal, ReactionState};
pub use kind::{REACTION_KIND_BYTES_MAX, ReactionKind};
pub use store::{
    OwnedReaction, REACTION_CHANGES_MAX, REACTION_SEQS_MAX, ReactionList, ReactionPosition, ReactionStore,
};
pub use summary::{KindCount, ReactionSummary};

use crate::{Seq, Timestamp, UserId};

/// The most kinds with which one user reacts to a message.
pub const KINDS_OF_USER_MAX: usize = 20;
/// The most kinds of reactions to a message.
pub const KINDS_OF_MESSAGE_MAX: usize = 64;
/// The most reactions to a message: a recall removes them in one transaction.
pub const REACTIONS_MAX: u64 = 10_000;

/// Identifies a reaction within a conversation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReactionKey {
    /// The message's number.
    pub seq: Seq,
    /// The user who reacts.
    pub user: UserId,
    /// The emoji or name that it shows.
    pub kind: ReactionKind,
}

/// A user's reaction to a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reaction {
    /// The message, the user and the kind.
    pub key: ReactionKey,
    /// When it was made.
    pub at: Timestamp,
}
