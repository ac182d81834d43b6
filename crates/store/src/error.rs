use std::{error::Error, sync::Arc};

use crate::{ApplicationRefusal, MemberRefusal, NoticeRefusal, TooManyRanges, Version};

/// Whether a failed write may have landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It changed nothing and never will.
    NotApplied,
    /// It may have been applied, or still be. Treat caches as if it had been.
    Unknown,
}

/// The driver's error. For the log of the code that handles the error; never part of its text.
type Source = Arc<dyn Error + Send + Sync>;

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The record to change does not live.
    #[error("the record does not exist")]
    NotFound,
    /// The version of the record is not the one expected.
    #[error("the version is {current}")]
    Conflict {
        /// The version it has.
        current: Version,
    },
    /// A record with this id exists already.
    #[error("the id is taken")]
    IdTaken,
    /// The id was that of a deleted user whose clean-up has not ended; see
    /// [`UserStore::release_id`](crate::UserStore::release_id).
    #[error("the id was that of a deleted user, and is not free yet")]
    IdHeld,
    /// Another live record, or a deleted one whose name is still kept, has this name.
    #[error("the name is taken")]
    NameTaken,
    /// The other user does not want it. Says nothing of who did what.
    #[error("the other user does not allow it")]
    Blocked,
    /// A change of members is not allowed, or would change no user.
    #[error(transparent)]
    Member(#[from] MemberRefusal),
    /// An application cannot be made, or is not to be decided any more.
    #[error(transparent)]
    Application(#[from] ApplicationRefusal),
    /// A mark would leave more unread ranges in a dialog than it may have.
    #[error(transparent)]
    TooManyRanges(#[from] TooManyRanges),
    /// A change of audiences or notices is not allowed.
    #[error(transparent)]
    Notice(#[from] NoticeRefusal),
    /// The request id has been used with another body.
    #[error("the request id was used with another body")]
    RequestMismatch,
    /// The change would make the parameters of the record larger than they may be.
    #[error("the parameters of the record would be larger than they may be")]
    ParamsTooLarge,
    /// The store cannot be reached or has no time; see [`StoreError::outcome`].
    #[error("the store is not available")]
    Unavailable {
        /// Whether the write may have landed.
        outcome: Outcome,
        /// What the driver said.
        source: Source,
    },
    /// The store has no room left.
    #[error("the store is full")]
    Full {
        /// What the driver said.
        source: Source,
    },
    /// The operator has not configured the store that this needs. Trying again does not help.
    #[error("{setting} is not set")]
    NotConfigured {
        /// The setting that names it.
        setting: &'static str,
    },
    /// More work waits for the store than it may.
    #[error("too much work waits for the store")]
    Overloaded,
    /// What is stored cannot be read: written by a newer version, or damaged.
    #[error("what is stored cannot be read")]
    Corrupt {
        /// What could not be read, without its content.
        source: Source,
    },
    /// The store refused for an unknown reason.
    #[error("the store failed")]
    Internal {
        /// Whether the write may have landed.
        outcome: Outcome,
        /// What the driver said.
        source: Source,
    },
}

impl StoreError {
    /// Whether the write was refused by what is stored, so that it cannot have been made before either.
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

    /// Whether the write that failed so may have landed.
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
            | Self::Corrupt { .. } => Outcome::NotApplied,
        }
    }
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
