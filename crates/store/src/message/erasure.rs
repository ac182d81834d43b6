//! Erasures of users' messages, and their store.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{ConversationId, Seq, StoreError, Timestamp, UserId, Version};

/// Erases all a user's messages: a job with many steps, with its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// The user whose messages are erased.
    pub user: UserId,
    /// Every write of the record raises it.
    pub version: Version,
    /// The erasure's number among the user's erasures, from 1.
    pub run: i64,
    /// When it was requested. The messages' content is removed as of this time.
    pub begun: Timestamp,
    /// Whether it has ended.
    pub ended: bool,
    /// Where it continues.
    #[serde(rename = "place")]
    pub cursor: ErasureCursor,
    /// How many conversations must be processed; 0 before they were counted.
    pub conversations: u64,
    /// How many conversations are processed.
    pub conversations_done: u64,
    /// How many messages lost their content. A few may be missing after a crash.
    pub messages: u64,
}

/// Where an erasure continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureCursor {
    /// The last processed conversation; `None`: none yet.
    pub after: Option<ConversationId>,
    /// The number at which the next conversation is continued.
    pub from: Seq,
    /// Whether the next conversation has, or may have, messages whose content was removed.
    pub erased_some: bool,
}

impl Erasure {
    /// The first step of an erasure, after this erasure for the same user.
    #[must_use]
    pub fn first(user: UserId, before: Option<&Self>, now: Timestamp) -> Self {
        Self {
            user,
            version: before.map_or(Version::NONE, |before| before.version).next(),
            run: before.map_or(0, |before| before.run) + 1,
            begun: now,
            ended: false,
            cursor: ErasureCursor::default(),
            conversations: 0,
            conversations_done: 0,
            messages: 0,
        }
    }
}

/// Storage for [`Erasure`] records: each user's last erasure.
#[async_trait]
pub trait ErasureStore: Send + Sync + fmt::Debug + 'static {
    /// Begins an erasure and returns it. If the user has an erasure already, returns it unchanged, unless it
    /// has ended and `again` is set. Among concurrent calls only one begins it.
    ///
    /// # Errors
    /// See [`StoreError::outcome`].
    async fn begin_erasure(&self, user: UserId, again: bool, now: Timestamp) -> Result<Erasure, StoreError>;

    /// Reads the erasures that have not ended, by rising user id above `after`, at most `limit`: fewer only
    /// at the end.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn unfinished_erasures(
        &self,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<Erasure>, StoreError>;

    /// Writes an erasure's progress if the stored record has this version, and returns the resulting record.
    /// `None`: it has another version, because another node continues it; nothing is written.
    ///
    /// # Errors
    /// See [`StoreError::outcome`].
    async fn save_erasure(&self, erasure: &Erasure) -> Result<Option<Erasure>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_erasure_has_another_run() {
        let user = UserId::new(7).unwrap();
        let first = Erasure::first(user, None, Timestamp(1));
        assert_eq!((first.run, first.version), (1, Version::FIRST));
        let ended = Erasure { ended: true, messages: 9, version: Version::FIRST.next(), ..first };
        let second = Erasure::first(user, Some(&ended), Timestamp(2));
        assert_eq!((second.run, second.messages, second.ended), (2, 0, false));
        assert!(second.version > ended.version);
    }
}
