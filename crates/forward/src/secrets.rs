//! The secrets of a receiver, and signatures by them.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use thiserror::Error;
use zeroize::Zeroizing;

/// How a secret begins.
const PREFIX: &str = "whsec_";
/// One, and another one during a rotation.
const SECRETS_MAX: usize = 2;
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;

/// One secret, or two during a rotation. Overwritten when dropped.
pub struct Secrets(Vec<Zeroizing<Vec<u8>>>);

/// Why a text holds no secrets. Names no part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SecretError {
    /// The text has no line.
    #[error("holds no secret: write whsec_ and 24 to 64 random bytes in base64")]
    Missing,
    /// The text has too many lines.
    #[error("holds more than two secrets, which are in two lines during a rotation")]
    TooMany,
    /// A line has another form.
    #[error("holds a line that is no secret: whsec_ and 24 to 64 random bytes in base64")]
    Malformed,
}

impl Secrets {
    /// Reads secrets, one in each line: `whsec_` and 24 to 64 bytes in base64. Empty lines are ignored.
    ///
    /// # Errors
    /// When there is no secret, more than two, or a line has another form.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let secrets = lines.map(secret).collect::<Result<Vec<_>, _>>()?;
        match secrets.len() {
            0 => Err(SecretError::Missing),
            1..=SECRETS_MAX => Ok(Self(secrets)),
            _ => Err(SecretError::TooMany),
        }
    }

    /// Returns the value of `webhook-signature`: for each secret `v1,` and the signature of
    /// `id.timestamp.body` in base64, with spaces between them. `timestamp` is in Unix seconds.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let head = format!("{id}.{timestamp}.");
        let signatures: Vec<_> =
            self.0.iter().filter_map(|secret| signature(secret, head.as_bytes(), body)).collect();
        signatures.join(" ")
    }
}

/// Prints no secret.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("len", &self.0.len()).finish()
    }
}

fn secret(line: &str) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    let text = line.strip_prefix(PREFIX).ok_or(SecretError::Malformed)?;
    let bytes = Zeroizing::new(STANDARD.decode(text).map_err(|_| SecretError::Malformed)?);
    if (BYTES_MIN..=BYTES_MAX).contains(&bytes.len()) { Ok(bytes) } else { Err(SecretError::Malformed) }
}

/// A key of any length is accepted, so that there always is a signature.
fn signature(secret: &[u8], head: &[u8], body: &[u8]) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(head);
    mac.update(body);
    Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}
