//! The terms for a write, and what it returns.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use crate::{Invalid, Timestamp, UserId, Version};

/// How long a request id is remembered.
pub const REQUEST_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// An id's state in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored<T> {
    /// The record exists. Shared, so that a cache keeps it without a copy.
    Live(Arc<T>),
    /// The write with this version deleted it. Its stub keeps the version.
    Deleted(Version),
    /// Nothing was ever stored under the id.
    Never,
}

impl<T: Clone> Stored<T> {
    /// The record, if it exists; a copy if it is shared.
    pub fn live(self) -> Option<T> {
        match self {
            Self::Live(record) => Some(Arc::unwrap_or_clone(record)),
            Self::Deleted(_) | Self::Never => None,
        }
    }
}

/// Every write's parameters besides its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The version that the record must have; `None`: any.
    pub expected: Option<Version>,
    /// Makes the write idempotent. `None` has no cost.
    pub request: Option<Request>,
    /// The write's time, for the record.
    pub now: Timestamp,
}

impl Write {
    /// A write at `now` with no condition and no request id.
    #[must_use]
    pub const fn at(now: Timestamp) -> Self {
        Self { expected: None, request: None, now }
    }
}

/// Makes a write idempotent for [`REQUEST_KEPT`]: the first write with the id takes effect and its
/// [`Applied`] is kept in the same commit; a later write with the same fingerprint gets that answer back, and
/// fails with another fingerprint with [`StoreError::RequestMismatch`](crate::StoreError::RequestMismatch). A
/// failed write stores nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The id that the caller chose.
    pub id: RequestId,
    /// A digest over method and body.
    pub fingerprint: [u8; 32],
}

/// Chosen by a caller: 1 to 64 characters out of `A-Z a-z 0-9 _ -`. Ids for Kith's own steps, and ids that
/// are bound to a caller, have another form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// The id for a step that Kith itself takes for a record. No caller can choose it: it has a colon.
    #[must_use]
    pub fn of_step(record: &str, step: &'static str) -> Self {
        Self(format!("{record}:{step}"))
    }

    /// Binds this id to one of several callers, which choose their ids independently. No caller can choose
    /// it: it has a colon.
    #[must_use]
    pub fn of_caller(&self, caller: u32) -> Self {
        Self(format!("{caller:08x}:{self}"))
    }

    /// Binds this id to a user who calls without a service: users choose their ids without each other. No
    /// caller can choose it.
    #[must_use]
    pub fn of_user(&self, user: UserId) -> Self {
        Self(format!("u{user}:{self}"))
    }

    /// Binds this id to a later account with a user's id: the accounts before chose theirs without it. No
    /// caller can choose it: it has a colon.
    #[must_use]
    pub fn of_account(&self, account: u32) -> Self {
        if account == 0 { self.clone() } else { Self(format!("a{account}:{self}")) }
    }

    /// The characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RequestId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let allowed = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
        if text.is_empty() || text.len() > 64 || !text.bytes().all(allowed) {
            return Err(Invalid::new("must have 1 to 64 characters out of A-Z a-z 0-9 _ -"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A write that has been acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied<T> {
    /// The record as this write left it (after a deletion: its version).
    pub record: T,
    /// Whether an earlier write with the same request id made the change. The record may have changed since.
    pub replayed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_not_normalized() {
        for text in ["a", "A-Z_0", "-", "_", "0190b3f2-7c1e-7000-8000-000000000000", &"x".repeat(64)] {
            assert_eq!(text.parse::<RequestId>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn other_request_ids_are_refused() {
        for text in ["", " ", "a b", "a.b", "$a", "é", "a\0", "a\n", "a/b", "{a}", &"x".repeat(65)] {
            assert!(text.parse::<RequestId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn request_ids_differ_by_case() {
        assert_ne!("a".parse::<RequestId>().unwrap(), "A".parse::<RequestId>().unwrap());
    }

    #[test]
    fn only_a_living_record_is_live() {
        assert_eq!(Stored::Live(Arc::new(1)).live(), Some(1));
        assert_eq!(Stored::<u8>::Deleted(Version::FIRST).live(), None);
        assert_eq!(Stored::<u8>::Never.live(), None);
    }
}
