//! Settings that a conversation has for all its users, and their store.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{ConversationId, Seq, StoreError, Version};

/// A conversation's settings for all its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The conversation.
    pub id: ConversationId,
    /// The version, which each write that changes the record raises.
    pub version: Version,
    /// The lowest number that any user may read; 0: all. Never falls.
    pub min_seq: Seq,
    /// Whether messages below `min_seq` are to be removed from the log.
    pub trim: bool,
}

impl Conversation {
    /// The defaults while no record is stored: version [`Version::NONE`].
    #[must_use]
    pub const fn absent(id: ConversationId) -> Self {
        Self { id, version: Version::NONE, min_seq: 0, trim: false }
    }

    /// The record after [`ConversationStore::raise_min_seq`]. `None`: it changes nothing.
    #[must_use]
    pub fn raised(&self, min_seq: Seq, trim: bool) -> Option<Self> {
        let raised = Self { min_seq: self.min_seq.max(min_seq), trim: self.trim || trim, ..*self };
        (raised != *self).then(|| Self { version: self.version.next(), ..raised })
    }
}

/// Storage for [`Conversation`] records. A conversation has a record only if something is set.
#[async_trait]
pub trait ConversationStore: Send + Sync + fmt::Debug + 'static {
    /// Reads the records for up to [`BATCH_MAX`](crate::BATCH_MAX) conversations; each once, in any order.
    /// Conversations without a record are left out; see [`Conversation::absent`]. Sees every write that was
    /// acknowledged before it began, except for some seconds after a failover.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more conversations.
    async fn conversations(&self, ids: &[ConversationId]) -> Result<Vec<Conversation>, StoreError>;

    /// Like [`ConversationStore::conversations`], but right even after a failover: a deposed primary cannot
    /// answer. Costs more: a round trip to the majority.
    ///
    /// # Errors
    /// Fails like [`ConversationStore::conversations`], and if no majority of the servers answers.
    async fn strong_conversations(&self, ids: &[ConversationId]) -> Result<Vec<Conversation>, StoreError>;

    /// Raises `min_seq`, and sets `trim` if asked to, and returns the resulting record; the absent one if
    /// there is none and nothing changes. Never lowers `min_seq` and never unsets `trim`, so that repeating
    /// it changes nothing. The version rises only if something changes.
    ///
    /// # Errors
    /// See [`StoreError::outcome`].
    async fn raise_min_seq(
        &self,
        id: ConversationId,
        min_seq: Seq,
        trim: bool,
    ) -> Result<Conversation, StoreError>;

    /// Reads the records with `trim`, by the id's rising text after `after`, at most `limit`: fewer only at
    /// the end.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn untrimmed_conversations(
        &self,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<Conversation>, StoreError>;

    /// Unsets `trim` in a record that has this version, and returns the resulting record; raises the version.
    /// `None`: it has another version, or `trim` is not set, and nothing is changed.
    ///
    /// # Errors
    /// See [`StoreError::outcome`].
    async fn end_trim(
        &self,
        id: ConversationId,
        version: Version,
    ) -> Result<Option<Conversation>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_rises_only_with_a_change() {
        let absent = Conversation::absent("g9".parse().unwrap());
        assert_eq!(absent.raised(0, false), None);
        let raised = absent.raised(7, false).unwrap();
        assert_eq!(raised, Conversation { version: Version::FIRST, min_seq: 7, ..absent });
        assert_eq!(raised.raised(6, false), None);
        let trimmed = raised.raised(6, true).unwrap();
        assert_eq!(trimmed, Conversation { version: Version::FIRST.next(), trim: true, ..raised });
        assert_eq!(trimmed.raised(7, false), None);
    }
}
