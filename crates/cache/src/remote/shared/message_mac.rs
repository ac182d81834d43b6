//! Authenticates messages: distinguishes nodes' messages from outsiders' messages.

use std::fmt;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// Bytes in an authentication code: half an HMAC-SHA256, which RFC 2104 section 5 allows.
const MAC_BYTES: usize = 16;

/// Authenticates messages by a key that only the nodes know. A message without it is not applied.
#[derive(Clone)]
pub struct MessageMac(Hmac<Sha256>);

impl MessageMac {
    /// Authenticates with this key.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let mac = Hmac::new_from_slice(key);
        Self(mac.unwrap_or_else(|_| unreachable!("a key of any length will do")))
    }

    /// The message with its authentication code in front. `name` is the nonce of its entry: the message is
    /// invalid under another.
    #[must_use]
    pub fn sign(&self, name: u64, message: &[u8]) -> Vec<u8> {
        let code = self.hmac(name, message).finalize().into_bytes();
        [&code[..MAC_BYTES], message].concat()
    }

    /// The message, if its authentication code is correct.
    #[must_use]
    pub fn verify<'a>(&self, name: u64, signed: &'a [u8]) -> Option<&'a [u8]> {
        let (code, message) = signed.split_first_chunk::<MAC_BYTES>()?;
        self.hmac(name, message).verify_truncated_left(code).ok().map(|()| message)
    }

    fn hmac(&self, name: u64, message: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(name.to_be_bytes()).chain_update(message)
    }
}

impl fmt::Debug for MessageMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageMac")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_or_foreign_message_is_rejected() {
        let (mac, other) = (MessageMac::new(&[1; 32]), MessageMac::new(&[2; 32]));
        let signed = mac.sign(7, b"message");
        assert_eq!(mac.verify(7, &signed), Some(&b"message"[..]));
        assert_eq!(mac.verify(8, &signed), None);
        assert_eq!(other.verify(7, &signed), None);
        assert_eq!(mac.verify(7, &signed[..10]), None);
        let mut changed = signed;
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(mac.verify(7, &changed), None);
    }
}
