//! Issues consistency tokens with a time and an authentication code, so that no client can make a token that
//! sends reads to the store.

use std::{fmt, time::Duration};

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::{
    clock::wall_clock_ms,
    token::{Position, Proof, Token, TokenError, UNSEEN},
};

/// How long a token demands something. Whatever fails, no answer misses a write for more than minutes, so
/// after an hour every answer is newer than the write.
pub const TOKEN_KEPT: Duration = Duration::from_secs(3_600);
/// How long a window may be without a message that is in the store. This is longer than any
/// the time for which a window is trusted: by then every reader has compared the window with the store.
pub const UNSEEN_KEPT: Duration = Duration::from_secs(60);

/// Issues tokens, and accepts the texts of tokens that were issued with the same key. All nodes over one
/// database share the key.
#[derive(Clone)]
pub struct TokenIssuer {
    hmac: Hmac<Sha256>,
    /// The present time, in seconds since 1970.
    seconds: fn() -> u64,
}

impl TokenIssuer {
    /// Issues tokens with this key. `seconds` returns the present time, in seconds since 1970, by a clock on
    /// which all nodes agree.
    #[must_use]
    pub fn new(key: &[u8; 32], seconds: fn() -> u64) -> Self {
        let hmac = Hmac::new_from_slice(key);
        Self { hmac: hmac.unwrap_or_else(|_| unreachable!("a key of any length will do")), seconds }
    }

    /// Issues tokens with a random key and the clock of the machine. No other process accepts them.
    #[must_use]
    pub fn random() -> Self {
        Self::new(&rand::random(), || wall_clock_ms() / 1_000)
    }

    /// The token of this position, with the present time.
    pub(crate) fn issue(&self, position: Position) -> Token {
        let issued = (self.seconds)();
        let mac: [u8; 32] = self.hmac_of(&[position], issued).finalize().into_bytes().into();
        let (half, _) = mac.split_first_chunk().unwrap_or_else(|| unreachable!("32 bytes have 16"));
        let code = u128::from_be_bytes(*half);
        Token::proven(position, Proof { issued, code })
    }

    /// Reads the token that a client sent back. A token in the previous format has no time and no code, see
    /// [`Token::issued`].
    ///
    /// # Errors
    /// If the text is not a token, or its code was made with another key.
    pub fn accept(&self, text: &str) -> Result<Token, TokenError> {
        let token = Token::parse(text)?;
        match token.proof() {
            Some(Proof { issued, code }) => {
                let hmac = self.hmac_of(token.positions(), issued);
                let verified = hmac.verify_truncated_left(&code.to_be_bytes());
                verified.map(|()| token).map_err(|_| TokenError::Foreign)
            }
            None => Ok(token),
        }
    }

    /// Whether the token is older than [`TOKEN_KEPT`], or [`UNSEEN_KEPT`] for a message that its window may
    /// not have: every answer satisfies it then.
    #[must_use]
    pub fn is_outlived(&self, token: &Token) -> bool {
        let kept = if token.is_of(UNSEEN) { UNSEEN_KEPT } else { TOKEN_KEPT };
        let age = |issued| (self.seconds)().saturating_sub(issued);
        token.issued().is_some_and(|issued| age(issued) > kept.as_secs())
    }

    /// Computes the HMAC over the demands and the time. A token has half of it, which RFC 2104 section 5
    /// allows.
    fn hmac_of(&self, positions: &[Position], issued: u64) -> Hmac<Sha256> {
        let mut hmac = self.hmac.clone().chain_update(issued.to_be_bytes());
        for position in positions {
            hmac.update(&position.partition.to_be_bytes());
            hmac.update(&position.epoch.to_be_bytes());
            hmac.update(&position.number.to_be_bytes());
        }
        hmac
    }
}

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenIssuer")
    }
}
