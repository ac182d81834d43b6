//! A user who calls.

use std::time::Duration;

use kith_store::{Timestamp, UserId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A user, as its token proves it.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) id: UserId,
    /// When the token was issued. `None` if the user is trusted without a token.
    pub(crate) issued: Option<Timestamp>,
    /// When the node begins to refuse the token. The user's streams end then.
    pub(crate) ends: Instant,
    /// Cancelled when the key that signed the token is removed. The user's streams end then.
    pub(crate) ended: CancellationToken,
}

impl User {
    /// A user that is believed without a token.
    pub(crate) fn trusted(id: UserId) -> Self {
        // Ten years: every clock reaches that far, and there is no latest instant.
        let ends = Instant::now() + Duration::from_secs(10 * 365 * 24 * 60 * 60);
        Self { id, issued: None, ends, ended: CancellationToken::new() }
    }
}
