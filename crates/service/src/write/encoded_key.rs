//! The text of cache keys with several fields.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Serialize, de::DeserializeOwned};

/// A cache key whose text is its fields, encoded with postcard and then in Base64.
///
/// A change in a key's fields, their order or their meaning must raise the schema of its records: nodes with
/// another schema may have other records under the same text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EncodedKey<K>(pub(crate) K);

/// The text is not a key's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not that of a key")]
pub(crate) struct InvalidKeyText;

impl<K: Serialize> fmt::Display for EncodedKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = postcard::to_allocvec(&self.0).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl<K: DeserializeOwned> FromStr for EncodedKey<K> {
    type Err = InvalidKeyText;

    fn from_str(text: &str) -> Result<Self, InvalidKeyText> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidKeyText)?;
        let (key, rest) = postcard::take_from_bytes(&bytes).map_err(|_| InvalidKeyText)?;
        rest.is_empty().then_some(Self(key)).ok_or(InvalidKeyText)
    }
}

/// The key has this text and is read from it; shorter and longer texts are refused.
#[cfg(test)]
pub(crate) fn assert_text<K: Clone + PartialEq + fmt::Debug + Serialize + DeserializeOwned>(
    key: &K,
    text: &str,
) {
    let key = EncodedKey(key.clone());
    assert_eq!(key.to_string(), text, "another text needs another schema");
    assert_eq!(text.parse(), Ok(key));
    for other in [&text[1..], &text[..text.len() - 1], &format!("{text}AAAA"), &format!("{text}:"), ""] {
        assert_eq!(other.parse::<EncodedKey<K>>(), Err(InvalidKeyText), "{other:?}");
    }
}
