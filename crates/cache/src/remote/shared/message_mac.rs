//! Authentication of messages: distinguishes those of nodes from those of outsiders.

use std::fmt;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// Bytes of a seal: half of HMAC-SHA256, which RFC 2104 section 5 allows.
const SEAL_BYTES: usize = 16;

/// Authenticates messages by a key that only the nodes know. A message without it is not applied.
#[derive(Clone)]
pub struct MessageMac(Hmac<Sha256>);

impl MessageMac {
    /// A seal with this key.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let mac = Hmac::new_from_slice(key);
        Self(mac.unwrap_or_else(|_| unreachable!("a key of any length will do")))
    }

    /// The message with its authentication code in front. `name` is the nonce of its entry: the message is invalid
    /// under another.
    #[must_use]
    pub fn close(&self, name: u64, message: &[u8]) -> Vec<u8> {
        let seal = self.mac(name, message).finalize().into_bytes();
        [&seal[..SEAL_BYTES], message].concat()
    }

    /// The message, if its authentication code is correct.
    #[must_use]
    pub fn open<'a>(&self, name: u64, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (seal, message) = sealed.split_first_chunk::<SEAL_BYTES>()?;
        self.mac(name, message).verify_truncated_left(seal).ok().map(|()| message)
    }

    fn mac(&self, name: u64, message: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(name.to_be_bytes()).chain_update(message)
    }
}

impl fmt::Debug for MessageMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_or_foreign_message_is_rejected() {
        let (seal, other) = (MessageMac::new(&[1; 32]), MessageMac::new(&[2; 32]));
        let sealed = seal.close(7, b"message");
        assert_eq!(seal.open(7, &sealed), Some(&b"message"[..]));
        assert_eq!(seal.open(8, &sealed), None);
        assert_eq!(other.open(7, &sealed), None);
        assert_eq!(seal.open(7, &sealed[..10]), None);
        let mut changed = sealed;
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(seal.open(7, &changed), None);
    }
}
