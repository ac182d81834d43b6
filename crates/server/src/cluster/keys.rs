use hmac::{Hmac, Mac as _};
use kith_cache::remote::Seal;
use kith_store::{StoreError, Stores};
use sha2::Sha256;

/// Name of the key, kept by the store, that all nodes know and nobody else.
const NAME: &str = "nodes";

/// Keys for what passes between nodes, each for one purpose.
#[derive(Clone)]
pub(crate) struct Keys([u8; 32]);

impl Keys {
    /// Those of the nodes over these stores, made at the first start of the first node.
    pub(crate) async fn of(stores: &Stores) -> Result<Self, StoreError> {
        stores.node.key(NAME, rand::random()).await.map(Self)
    }

    /// Seals what nodes tell each other through Redis.
    pub(crate) fn seal(&self) -> Seal {
        Seal::new(&self.derived("messages"))
    }

    /// By which a node knows calls of others.
    pub(super) fn calls(&self) -> [u8; 32] {
        self.derived("calls")
    }

    fn derived(&self, purpose: &str) -> [u8; 32] {
        mac(&self.0, purpose).finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// HMAC-SHA256 of a text, to be finished or verified.
pub(super) fn mac(key: &[u8; 32], text: &str) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(key);
    mac.unwrap_or_else(|_| unreachable!("a key of any length will do")).chain_update(text)
}
