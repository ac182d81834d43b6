//! Caller keys: how a node recognises a key without keeping it.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// SHA-256 over a whole key. Configurations and nodes keep only this: a key with 256 random bits cannot be
/// found from it, and a slow hash on every call would let callers without a key take the processor.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digests a credential as a caller sent it.
    #[must_use]
    pub fn of(credential: &[u8]) -> Self {
        Self(Sha256::digest(credential).into())
    }

    /// Parses 64 hexadecimal digits. Returns `None` for any other text.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// Formats the whole digest as 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest's first 8 bytes, by which it is looked up.
    pub(super) fn prefix(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// How the key is named in logs and lists.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        let [a, b, c, d, e, ..] = self.0;
        KeyId([a, b, c, d, e])
    }
}

/// Takes the same time whatever differs.
impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

/// Prints the key id alone.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({}..)", self.key_id())
    }
}

/// The first 10 hexadecimal digits of a key's digest. Names the key, and cannot be used as a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 5]);

impl KeyId {
    /// Parses 10 hexadecimal digits. Returns `None` for any other text.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let whole = (text.len() == 10).then(|| format!("{text:0<64}"))?;
        Digest::from_hex(&whole).map(|digest| digest.key_id())
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_from_64_digits_alone() {
        let digest = Digest::of(b"abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_hex(), hex);
        assert_eq!(Digest::from_hex(hex), Some(digest));
        assert_eq!(Digest::from_hex(&hex.to_uppercase()), Some(digest));
        for wrong in ["", &hex[1..], &format!("{hex}0"), &hex.replace('b', "g"), &hex.replace("ba", "é")] {
            assert_eq!(Digest::from_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_id_is_the_first_ten_digits() {
        assert_eq!(Digest::of(b"abc").key_id().to_string(), "ba7816bf8f");
        assert_eq!(format!("{:?}", Digest::of(b"abc")), "Digest(ba7816bf8f..)");
        assert_eq!(KeyId::from_hex("ba7816bf8f"), Some(Digest::of(b"abc").key_id()));
        assert_eq!(KeyId::from_hex("ba7816bf8"), None);
        assert_eq!(KeyId::from_hex("chat-jobs-"), None);
    }
}
