//! Fan-out notes that Redis did not take, and their store.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::{ConversationId, NodeName, StoreError};

/// Records that a conversation's messages may not be in all recipients' inboxes yet. If its node dies,
/// another node finds the note and delivers them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FanOutNote {
    /// The conversation.
    pub conversation: ConversationId,
    /// The node that appended the messages.
    pub node: NodeName,
    /// Identifies the append among the node's appends.
    pub step: u64,
}

/// A note and its age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNote {
    /// The note itself.
    pub note: FanOutNote,
    /// Its age, by the clock of the server that stores it.
    pub age: Duration,
}

/// Storage for notes that Redis did not take: a node that is cut from Redis may die before it can reach Redis
/// again.
#[async_trait]
pub trait FanOutNoteStore: Send + Sync + fmt::Debug + 'static {
    /// Stores a note. May be repeated: the first call's time counts. Costs one write.
    ///
    /// # Errors
    /// If the store cannot answer. The note may be stored.
    async fn keep_fan_out_note(&self, note: &FanOutNote) -> Result<(), StoreError>;

    /// Removes notes. Missing ones are ignored. Costs one write.
    ///
    /// # Errors
    /// If the store cannot answer. Some may be removed.
    async fn remove_fan_out_notes(&self, notes: &[FanOutNote]) -> Result<(), StoreError>;

    /// Returns the notes that are at least as old as `age`, the oldest first, at most `limit`. Costs one
    /// index read.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn due_fan_out_notes(&self, age: Duration, limit: usize) -> Result<Vec<DueNote>, StoreError>;
}
