//! Fan-out notes that Redis did not take, and their store.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::{ConversationId, NodeName, StoreError};

/// Records that messages of a conversation may not be in the inboxes of all recipients yet. If its node dies, another one
/// finds the note and delivers them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FanOutNote {
    /// The conversation.
    pub conversation: ConversationId,
    /// The node that appended the messages.
    pub node: NodeName,
    /// Identifies the append among those of the node.
    pub step: u64,
}

/// A note and its age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNote {
    /// The note.
    pub note: FanOutNote,
    /// The age, by the clock of the server that stores it.
    pub age: Duration,
}

/// Storage of notes that Redis did not take: a node that is cut from Redis may die before it can reach Redis again.
#[async_trait]
pub trait FanOutNoteStore: Send + Sync + fmt::Debug + 'static {
    /// Stores a note. May be repeated: the time of the first call counts. Costs one write.
    ///
    /// # Errors
    /// If the store cannot answer. The note may be stored.
    async fn keep_fan_out_note(&self, note: &FanOutNote) -> Result<(), StoreError>;

    /// Removes notes. Missing ones are ignored. Costs one write.
    ///
    /// # Errors
    /// If the store cannot answer. Some may be removed.
    async fn remove_fan_out_notes(&self, notes: &[FanOutNote]) -> Result<(), StoreError>;

    /// Returns the notes that are at least as old as `age`, the oldest first, at most `limit`. Costs one read of an index.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn due_fan_out_notes(&self, age: Duration, limit: usize) -> Result<Vec<DueNote>, StoreError>;
}
