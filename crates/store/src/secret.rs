//! Users' and groups' secrets, and their store.

use std::{collections::BTreeMap, fmt};

use async_trait::async_trait;
use zeroize::Zeroizing;

use crate::{GroupId, StoreError, UserId};

/// The owner of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecretOwner {
    /// A user owns it.
    User(UserId),
    /// A group owns it.
    Group(GroupId),
}

/// A secret in the form that is stored: a salted hash, or a sealed text. Its `Debug` output shows no content,
/// and it is wiped from memory when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSecret(Zeroizing<String>);

impl StoredSecret {
    /// Wraps a hash or a sealed text; never the secret itself.
    #[must_use]
    pub fn new(sealed: String) -> Self {
        Self(Zeroizing::new(sealed))
    }

    /// The hash or sealed text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for StoredSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredSecret(..)")
    }
}

/// Secrets that a write to their owner sets (`Some`) or removes (`None`), by name. They change in the same
/// commit as the owner's record, or not at all.
pub type SecretChange = BTreeMap<String, Option<StoredSecret>>;

/// Storage for secrets, apart from their owners' records, so that no read of a record can return a secret.
/// They are written through their owners' writes.
#[async_trait]
pub trait SecretStore: Send + Sync + fmt::Debug + 'static {
    /// Reads an existing owner's secret, if any. Never cache it.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn secret(&self, owner: SecretOwner, name: &str) -> Result<Option<StoredSecret>, StoreError>;
}
