//! Store errors, and the outcome of a failed write.

use std::{error::Error, sync::Arc};

use crate::{ApplicationRefusal, MemberRefusal, NoticeRefusal, TooManyRanges, Version};

/// Whether a failed write may have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not applied, and will not be.
    NotApplied,
    /// It may have been applied, or may be applied later. Caches must be treated as if it was.
    Unknown,
}

/// The driver's error. For the log in the code that handles the error; never part of its text.
type Source = Arc<dyn Error + Send + Sync>;

/// An error that a store returns.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The record does not exist, or was deleted.
    #[error("the record does not exist")]
    NotFound,
    /// The record's version is not the expected version.
    #[error("the version is {current}")]
    Conflict {
        /// The present version.
        current: Version,
    },
    /// A record with this id exists already.
    #[error("the id is taken")]
    IdTaken,
    /// The id belonged to a deleted user whose clean-up has not ended; see
    /// [`UserStore::release_id`](crate::UserStore::release_id).
    #[error("the id was that of a deleted user, and is not free yet")]
    IdHeld,
    /// The name belongs to another record, or to a deleted record whose name is still reserved.
    #[error("the name is taken")]
    NameTaken,
    /// The other user does not allow it. Does not reveal the reason.
    #[error("the other user does not allow it")]
    Blocked,
    /// A change to members was refused.
    #[error(transparent)]
    Member(#[from] MemberRefusal),
    /// An application cannot be made, or can no longer be decided.
    #[error(transparent)]
    Application(#[from] ApplicationRefusal),
    /// A mark would leave more unread ranges in a dialog than it may have.
    #[error(transparent)]
    TooManyRanges(#[from] TooManyRanges),
    /// A change to audiences or notices is not allowed.
    #[error(transparent)]
    Notice(#[from] NoticeRefusal),
    /// The request id has been used with another body.
    #[error("the request id was used with another body")]
    RequestMismatch,
    /// The change would make the record's parameters too large.
    #[error("the parameters of the record would be larger than they may be")]
    ParamsTooLarge,
    /// The store cannot be reached, or did not answer in time; see [`StoreError::outcome`].
    #[error("the store is not available")]
    Unavailable {
        /// Whether the write may have been applied.
        outcome: Outcome,
        /// The driver's error.
        source: Source,
    },
    /// The store has no room left.
    #[error("the store is full")]
    Full {
        /// The driver's error.
        source: Source,
    },
    /// The operator has not configured the store that this needs. A retry does not help.
    #[error("{setting} is not set")]
    NotConfigured {
        /// The missing setting.
        setting: &'static str,
    },
    /// Too much work waits for the store.
    #[error("too much work waits for the store")]
    Overloaded,
    /// A newer version of the program has migrated the stored data.
    #[error(
        "a newer version wrote what is stored: it is at migration {found:04} ({name}), and this one knows up to {known:04}"
    )]
    NewerSchema {
        /// The data's newest migration.
        found: u32,
        /// The migration's name.
        name: String,
        /// This program's newest migration.
        known: u32,
    },
    /// A restore of a backup was begun and has not ended.
    #[error("a restore has begun and has not ended")]
    HalfRestored,
    /// The stored data cannot be read: it is damaged.
    #[error("what is stored cannot be read")]
    Corrupt {
        /// The error, without the stored content.
        source: Source,
    },
    /// The store refused for an unknown reason.
    #[error("the store failed")]
    Internal {
        /// Whether the write may have been applied.
        outcome: Outcome,
        /// The driver's error.
        source: Source,
    },
}

impl StoreError {
    /// Whether the stored state refused the write, so that no earlier attempt can have been applied either.
    #[must_use]
    pub const fn is_decided(&self) -> bool {
        matches!(
            self,
            Self::Member(_)
                | Self::Application(_)
                | Self::TooManyRanges(_)
                | Self::Notice(_)
                | Self::Conflict { .. }
                | Self::NotFound
                | Self::Blocked
        )
    }

    /// Whether a write with this error may have been applied.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Unavailable { outcome, .. } | Self::Internal { outcome, .. } => *outcome,
            Self::NotFound
            | Self::Conflict { .. }
            | Self::IdTaken
            | Self::IdHeld
            | Self::NameTaken
            | Self::Blocked
            | Self::Member(_)
            | Self::Application(_)
            | Self::TooManyRanges(_)
            | Self::Notice(_)
            | Self::RequestMismatch
            | Self::ParamsTooLarge
            | Self::Full { .. }
            | Self::NotConfigured { .. }
            | Self::Overloaded
            | Self::NewerSchema { .. }
            | Self::HalfRestored
            | Self::Corrupt { .. } => Outcome::NotApplied,
        }
    }
}

/// Refuses a call with more than `most` items.
///
/// # Errors
/// [`StoreError::Overloaded`] for more.
pub const fn at_most(count: usize, most: usize) -> Result<(), StoreError> {
    if count > most { Err(StoreError::Overloaded) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_by_records_are_decided() {
        let decided = [
            StoreError::Member(MemberRefusal::Full),
            StoreError::Application(ApplicationRefusal::TooManyPending),
            StoreError::TooManyRanges(TooManyRanges),
            StoreError::Notice(NoticeRefusal::Published),
            StoreError::Conflict { current: Version::FIRST },
            StoreError::NotFound,
            StoreError::Blocked,
        ];
        assert!(decided.iter().all(StoreError::is_decided));
        let undecided = [StoreError::Overloaded, StoreError::NameTaken, StoreError::RequestMismatch];
        assert!(!undecided.iter().any(StoreError::is_decided));
    }
}
