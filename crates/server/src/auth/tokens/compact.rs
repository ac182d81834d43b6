//! A token's text: header, claims and signature as base64url, with dots between them.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use super::{TokenAlgorithm, TokenRefusal, claims::Claims};

/// Longest key id.
const KEY_ID_MAX: usize = 128;

/// A text in the form of a token. Nothing in it is proved.
#[derive(Debug)]
pub(super) struct CompactToken {
    token: Box<[u8]>,
    /// How many of the token's bytes are signed.
    signed: usize,
    /// How many bytes the header has.
    header: usize,
    pub(super) algorithm: TokenAlgorithm,
    pub(super) key_id: Box<str>,
    pub(super) signature: Vec<u8>,
}

/// The fields that are read. Keys in the header (`jwk`, `jku`, `x5c`, `x5u`) are not read: the token's author
/// chooses them. The reader refuses a field that is there twice.
#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow)]
    kid: Cow<'a, str>,
    #[serde(borrow)]
    typ: Option<Cow<'a, str>>,
    /// Whether it is there.
    #[serde(default, deserialize_with = "is_present")]
    crit: bool,
}

fn is_present<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(from).map(|_| true)
}

impl CompactToken {
    /// Reads the header, and nothing else.
    pub(super) fn read(token: &[u8]) -> Result<Self, TokenRefusal> {
        let mut parts = token.split(|byte| *byte == b'.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenRefusal::Form);
        };
        let json = decode(header)?;
        let read = Header::read(&json)?;
        if read
            .typ
            .as_deref()
            .is_some_and(|typ| !["jwt", "at+jwt"].iter().any(|own| typ.eq_ignore_ascii_case(own)))
        {
            return Err(TokenRefusal::Type);
        }
        if read.crit {
            return Err(TokenRefusal::Critical);
        }
        if read.kid.len() > KEY_ID_MAX {
            return Err(TokenRefusal::Key);
        }
        Ok(Self {
            token: token.into(),
            signed: header.len() + 1 + claims.len(),
            header: header.len(),
            algorithm: TokenAlgorithm::named(&read.alg).ok_or(TokenRefusal::Algorithm)?,
            key_id: read.kid.into(),
            signature: decode(signature)?,
        })
    }

    /// Reads the claims.
    pub(super) fn claims(&self) -> Result<Claims, TokenRefusal> {
        let json = decode(&self.token[self.header + 1..self.signed])?;
        object(&json, TokenRefusal::Claims).and_then(Claims::of)
    }

    /// The bytes that are signed.
    pub(super) fn signed(&self) -> &[u8] {
        &self.token[..self.signed]
    }
}

impl<'a> Header<'a> {
    fn read(json: &'a [u8]) -> Result<Self, TokenRefusal> {
        object(json, TokenRefusal::Header)
    }
}

/// Reads an object: a list would be taken for its fields in their order. `wrong`: it is JSON with other
/// fields.
fn object<'a, T: Deserialize<'a>>(json: &'a [u8], wrong: TokenRefusal) -> Result<T, TokenRefusal> {
    if json.trim_ascii_start().first() != Some(&b'{') {
        return Err(TokenRefusal::Form);
    }
    serde_json::from_slice(json).map_err(|error| if error.is_data() { wrong } else { TokenRefusal::Form })
}

/// Strictly: no padding, no blank, no bits that mean nothing, or one token would have several texts.
fn decode(text: &[u8]) -> Result<Vec<u8>, TokenRefusal> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenRefusal::Form)
}
