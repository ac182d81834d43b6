//! The keys that authenticate data between nodes, and what only nodes may issue. All are derived from one
//! random key in the store, so nodes need no other shared secret.

use hmac::{Hmac, Mac as _};
use kith_cache::{TokenIssuer, remote::MessageMac};
use kith_store::{StoreError, Stores, Timestamp};
use sha2::Sha256;

use crate::config::Config;

/// The key's name in the store, which only the nodes know.
const NAME: &str = "nodes";

/// Keys for data between nodes, each for one purpose.
#[derive(Clone)]
pub struct NodeKeys {
    key: [u8; 32],
    /// The name of the database that keeps it.
    database: String,
}

impl NodeKeys {
    /// Loads the keys of the nodes over these stores. The first node creates them at its first start.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub async fn of(stores: &Stores, config: &Config) -> Result<Self, StoreError> {
        let key = stores.node.key(NAME, rand::random()).await?;
        Ok(Self { key, database: config.store.mongodb.database.clone() })
    }

    /// Authenticates messages between nodes through Redis.
    pub(crate) fn message_mac(&self) -> MessageMac {
        MessageMac::new(&self.derived("messages"))
    }

    /// Issues the consistency tokens for all nodes over this database.
    pub(crate) fn token_issuer(&self) -> TokenIssuer {
        let seconds = || Timestamp::now().0.unsigned_abs() / 1_000;
        TokenIssuer::new(&self.derived("consistency tokens"), seconds)
    }

    /// Verifies calls from other nodes.
    pub(super) fn calls(&self) -> [u8; 32] {
        self.derived("calls")
    }

    /// Verifies other nodes' infos in Redis.
    pub(super) fn records(&self) -> [u8; 32] {
        self.derived("node records")
    }

    /// The key by which nodes show that they know the same callers.
    pub(super) fn callers(&self) -> [u8; 32] {
        self.derived("callers")
    }

    /// Identifies the database in what its nodes share in Redis. All nodes over a database have the same id,
    /// and every database has another id. A database that replaces a dropped one has another key, and a
    /// copied database has another name.
    pub(super) fn database_id(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.derived(&format!("database {}", self.database));
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    fn derived(&self, purpose: &str) -> [u8; 32] {
        mac(&self.key, purpose).finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for NodeKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeKeys")
    }
}

/// HMAC-SHA256 over a text, to be finished or verified.
pub(super) fn mac(key: &[u8; 32], text: &str) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(key);
    mac.unwrap_or_else(|_| unreachable!("a key of any length will do")).chain_update(text)
}

#[cfg(test)]
impl NodeKeys {
    pub(super) fn of_test(key: u8) -> Self {
        Self { key: [key; 32], database: "kith".to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_name_identify_a_database() {
        let id = |key, name: &str| NodeKeys { key: [key; 32], database: name.to_owned() }.database_id();
        assert_eq!(id(1, "kith"), id(1, "kith"));
        assert_ne!(id(1, "kith"), id(2, "kith"));
        assert_ne!(id(1, "kith"), id(1, "copy"));
    }
}
