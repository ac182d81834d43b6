//! Whether a user is let in, and from when on its tokens count.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    Applied, Invalid, StoreError, Stored, Text, Timestamp, UserId, Version, Write, heap_bytes, text,
};

/// The most characters in the reason for a suspension.
pub const SUSPENSION_REASON_CHARS_MAX: usize = 256;

/// How much later than a deletion a token must have been issued to belong to the next account: the clocks of
/// issuers and nodes may differ by this. An id is held for longer after its deletion.
pub const TOKENS_AFTER_DELETION: Duration = Duration::from_secs(30);

/// Whether a user is let in. Nearly no user has such a record: without it, a user is let in.
///
/// It is stored with the user, and outlives it in the stub that a deletion leaves. It has its own version:
/// changes to the user do not raise it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserAccess {
    /// Identifies the user.
    pub user: UserId,
    /// This state's version.
    pub version: Version,
    /// How many accounts with this id were deleted.
    pub account: u32,
    /// Tokens that were issued at this time or before are refused. Only rises; 0: none is.
    pub tokens_from: Timestamp,
    /// Present while the user is suspended, unless its time has passed.
    pub suspension: Option<Suspension>,
}

/// Why a user is not let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// When it ends by itself; `None`: it does not.
    pub until: Option<Timestamp>,
    /// Services may read it; it is never shown to users.
    pub reason: Text,
}

/// A change to a [`UserAccess`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessChange {
    /// Lets the user in no more. Replaces an earlier suspension.
    Suspend(Suspension),
    /// Ends the suspension, if any.
    Resume,
    /// Refuses the tokens that were issued at this time or before. An earlier time than the stored one
    /// changes nothing.
    RefuseTokens(Timestamp),
}

impl UserAccess {
    /// The state for a user for whom nothing is stored.
    #[must_use]
    pub const fn unrestricted(user: UserId) -> Self {
        Self { user, version: Version::NONE, account: 0, tokens_from: Timestamp(0), suspension: None }
    }

    /// The form in which backends return it: absent if it restricts nothing.
    #[must_use]
    pub fn stored(self) -> Stored<Self> {
        let version = self.version;
        if (Self { version: Version::NONE, ..self.clone() }) != Self::unrestricted(self.user) {
            Stored::Live(self.into())
        } else if version == Version::NONE {
            Stored::Never
        } else {
            Stored::Deleted(version)
        }
    }

    /// Approximate size in memory, in bytes, for the cache.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.suspension.as_ref().map_or(0, |suspension| heap_bytes(&suspension.reason))
    }

    /// Whether the user is suspended at this time.
    #[must_use]
    pub fn is_suspended(&self, now: Timestamp) -> bool {
        self.suspension.as_ref().is_some_and(|suspension| suspension.until.is_none_or(|until| now < until))
    }

    /// Whether a token that was issued at this time counts.
    #[must_use]
    pub fn takes_token(&self, issued: Timestamp) -> bool {
        self.tokens_from == Timestamp(0) || issued > self.tokens_from
    }
}

impl Suspension {
    /// Checks the reason. Empty: none.
    ///
    /// # Errors
    /// Fails like [`text::single_line`].
    pub fn new(until: Option<Timestamp>, reason: &str) -> Result<Self, Invalid> {
        Ok(Self { until, reason: text::single_line(reason, SUSPENSION_REASON_CHARS_MAX)? })
    }
}

/// Storage for [`UserAccess`] records. A user's deletion ends the suspension, raises `account` by one, and
/// `tokens_from` to its time and [`TOKENS_AFTER_DELETION`], in the same commit.
#[async_trait]
pub trait AccessStore: Send + Sync + fmt::Debug + 'static {
    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) records in one query, in the form that
    /// [`UserAccess::stored`] reads. An id that has never had a record may be absent.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more ids.
    async fn accesses(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<UserAccess>)>, StoreError>;

    /// Like [`Self::accesses`], but sees every acknowledged write: see [`StrongReads`](crate::StrongReads).
    ///
    /// # Errors
    /// Fails like [`Self::accesses`], and if no majority of the servers answers.
    async fn strong_accesses(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<UserAccess>)>, StoreError>;

    /// Changes an existing user's access. Raises the user's version, too.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`], [`StoreError::RequestMismatch`]: nothing is
    /// changed then. For other errors see [`StoreError::outcome`].
    async fn change_access(
        &self,
        id: UserId,
        change: AccessChange,
        write: Write,
    ) -> Result<Applied<UserAccess>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> UserAccess {
        UserAccess::unrestricted(UserId::new(7).unwrap())
    }

    #[test]
    fn suspension_ends_at_its_time() {
        let suspended =
            |until| UserAccess { suspension: Some(Suspension::new(until, "spam").unwrap()), ..access() };
        assert!(suspended(None).is_suspended(Timestamp(i64::MAX)));
        let ends = suspended(Some(Timestamp(50)));
        assert!(ends.is_suspended(Timestamp(49)) && !ends.is_suspended(Timestamp(50)));
        assert!(!access().is_suspended(Timestamp(0)));
    }

    #[test]
    fn tokens_count_after_the_stored_time() {
        let from = |time| UserAccess { tokens_from: Timestamp(time), ..access() };
        assert!(from(50).takes_token(Timestamp(51)) && !from(50).takes_token(Timestamp(50)));
        assert!(access().takes_token(Timestamp(0)) && access().takes_token(Timestamp(-1)));
    }

    #[test]
    fn state_without_restriction_is_absent() {
        let version = Version::FIRST;
        assert_eq!(access().stored(), Stored::Never);
        assert_eq!(UserAccess { version, ..access() }.stored(), Stored::Deleted(version));
        let deleted = UserAccess { version, account: 1, ..access() };
        assert_eq!(deleted.clone().stored(), Stored::Live(deleted.into()));
    }
}
