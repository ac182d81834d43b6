//! Page tokens: the position at which a list continues, with a MAC so that only Kith can issue tokens.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::{error::Error, rpc::call::Call};

/// The first byte in a token whose position is a fixed number count.
const NUMBERS: u8 = 1;
/// The first byte in a token whose position is bytes.
const BYTES: u8 = 2;
const MAC_BYTES: usize = 16;
/// The longest position in a token from [`PageTokens::issue_bytes`], in bytes.
pub const POSITION_BYTES_MAX: usize = 2048;
/// The longest token text; a longer text is refused before it is decoded.
const TOKEN_CHARS_MAX: usize = (1 + POSITION_BYTES_MAX + MAC_BYTES).div_ceil(3) * 4;

/// A page's sizes.
#[derive(Clone, Copy, Debug)]
pub struct PageSizes {
    /// The size for 0.
    pub default: usize,
    /// The largest size; larger ones are reduced to it.
    pub max: usize,
}

impl PageSizes {
    /// The size for a request.
    ///
    /// # Errors
    /// If it is below 0.
    pub fn of(self, asked: i32) -> Result<usize, Error> {
        match usize::try_from(asked) {
            Ok(0) => Ok(self.default),
            Ok(size) => Ok(size.min(self.max)),
            Err(_) => Err(Error::invalid("page_size", "must not be below 0")),
        }
    }
}

/// Issues and verifies page tokens. Each is bound to the query that it belongs to: with another query it is
/// refused.
#[derive(Clone)]
pub struct PageTokens {
    key: [u8; 32],
    /// The acting user's account: see [`Self::of`].
    account: u32,
}

impl std::fmt::Debug for PageTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PageTokens(..)")
    }
}

impl PageTokens {
    /// All nodes share the key.
    #[must_use]
    pub const fn new(key: [u8; 32]) -> Self {
        Self { key, account: 0 }
    }

    /// Binds tokens to a call's acting user: a later account with its id cannot use earlier accounts' tokens.
    #[must_use]
    pub const fn of(&self, call: Call) -> Self {
        self.of_account(call.access.account)
    }

    /// Binds tokens to this account.
    #[must_use]
    pub const fn of_account(&self, account: u32) -> Self {
        Self { key: self.key, account }
    }

    /// The token for the rest of an answer to `query` above the id `after`.
    #[must_use]
    pub fn issue(&self, query: &[&[u8]], after: i64) -> String {
        self.issue_numbers(query, [after])
    }

    /// The id above which the answer to `query` continues; `None` for the first page.
    ///
    /// # Errors
    /// If the token was not issued for this query.
    pub fn verify(&self, query: &[&[u8]], token: &str) -> Result<Option<i64>, Error> {
        Ok(self.verify_numbers(query, token)?.map(|[after]| after))
    }

    /// Like [`Self::issue`], for a position with several numbers. At most 128 numbers.
    #[must_use]
    pub fn issue_numbers<const N: usize>(&self, query: &[&[u8]], after: [i64; N]) -> String {
        const { assert!(8 * N <= POSITION_BYTES_MAX, "a token of so many numbers cannot be verified") };
        let position: Vec<u8> = after.iter().flat_map(|number| number.to_be_bytes()).collect();
        self.encode(NUMBERS, query, &position)
    }

    /// Like [`Self::verify`], for a position with several numbers.
    ///
    /// # Errors
    /// The errors of [`Self::verify`].
    pub fn verify_numbers<const N: usize>(
        &self,
        query: &[&[u8]],
        token: &str,
    ) -> Result<Option<[i64; N]>, Error> {
        let Some(position) = self.decode(NUMBERS, query, token)? else { return Ok(None) };
        let (numbers, rest) = position.as_chunks::<8>();
        if numbers.len() != N || !rest.is_empty() {
            return Err(refused());
        }
        Ok(Some(std::array::from_fn(|at| i64::from_be_bytes(numbers[at]))))
    }

    /// Like [`Self::issue`], for a position with variable length. Anyone can read the position in the token;
    /// no other program can change it. `None` if the position is longer than [`POSITION_BYTES_MAX`].
    #[must_use]
    pub fn issue_bytes(&self, query: &[&[u8]], position: &[u8]) -> Option<String> {
        (position.len() <= POSITION_BYTES_MAX).then(|| self.encode(BYTES, query, position))
    }

    /// Like [`Self::verify`], for a token from [`Self::issue_bytes`]. The position has at most
    /// [`POSITION_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// If the token was not issued by [`Self::issue_bytes`] for this query, or is too long to be a token.
    pub fn verify_bytes(&self, query: &[&[u8]], token: &str) -> Result<Option<Vec<u8>>, Error> {
        self.decode(BYTES, query, token)
    }

    /// A position's token, with the kind before it and the MAC after it.
    fn encode(&self, kind: u8, query: &[&[u8]], position: &[u8]) -> String {
        let mut token = Vec::with_capacity(1 + position.len() + MAC_BYTES);
        token.push(kind);
        token.extend(position);
        let mac = self.mac(query, &token).finalize().into_bytes();
        token.extend(&mac[..MAC_BYTES]);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// The position in a token with this kind; `None` for the first page.
    fn decode(&self, kind: u8, query: &[&[u8]], token: &str) -> Result<Option<Vec<u8>>, Error> {
        if token.is_empty() {
            return Ok(None);
        }
        if token.len() > TOKEN_CHARS_MAX {
            return Err(refused());
        }
        let mut body = URL_SAFE_NO_PAD.decode(token).map_err(|_| refused())?;
        let end = body.len().checked_sub(MAC_BYTES).ok_or_else(refused)?;
        let mac = body.split_off(end);
        self.mac(query, &body).verify_truncated_left(&mac).map_err(|_| refused())?;
        match body.split_first() {
            Some((found, position)) if *found == kind && position.len() <= POSITION_BYTES_MAX => {
                Ok(Some(position.to_vec()))
            }
            Some(_) | None => Err(refused()),
        }
    }

    fn mac(&self, query: &[&[u8]], body: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).unwrap_or_else(|_| unreachable!("any length is a key"));
        for part in query {
            mac.update(&part.len().to_be_bytes());
            mac.update(part);
        }
        if self.account > 0 {
            mac.update(&self.account.to_be_bytes());
        }
        mac.update(body);
        mac
    }
}

fn refused() -> Error {
    Error::invalid("page_token", "must be one that this query returned")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: PageTokens = PageTokens::new([7; 32]);

    #[test]
    fn token_is_valid_for_its_own_query_only() {
        let token = TOKENS.issue(&[b"users", b"ann"], 42);
        assert_eq!(TOKENS.verify(&[b"users", b"ann"], &token), Ok(Some(42)));
        assert!(TOKENS.verify(&[b"users", b"bob"], &token).is_err());
        assert!(TOKENS.verify(&[b"user", b"sann"], &token).is_err());
        assert!(PageTokens::new([8; 32]).verify(&[b"users", b"ann"], &token).is_err());
    }

    #[test]
    fn token_is_valid_for_its_own_account_only() {
        let (first, second) = (TOKENS.of_account(1), TOKENS.of_account(2));
        let token = first.issue(&[b"q"], 42);
        assert_eq!(first.verify(&[b"q"], &token), Ok(Some(42)));
        assert!(second.verify(&[b"q"], &token).is_err() && TOKENS.verify(&[b"q"], &token).is_err());
        let before = TOKENS.issue(&[b"q"], 42);
        assert!(first.verify(&[b"q"], &before).is_err());
    }

    #[test]
    fn token_of_numbers_is_valid_as_itself_only() {
        let token = TOKENS.issue_numbers(&[b"q"], [1, -2, i64::MAX]);
        assert_eq!(TOKENS.verify_numbers(&[b"q"], &token), Ok(Some([1, -2, i64::MAX])));
        assert!(
            TOKENS.verify(&[b"q"], &token).is_err() && TOKENS.verify_numbers::<2>(&[b"q"], &token).is_err()
        );
    }

    #[test]
    fn no_bit_of_a_token_can_be_changed() {
        let bytes = URL_SAFE_NO_PAD.decode(TOKENS.issue(&[b"q"], 42)).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(TOKENS.verify(&[b"q"], &URL_SAFE_NO_PAD.encode(forged)).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            let cut = URL_SAFE_NO_PAD.encode(&bytes[..length]);
            assert!(length == 0 || TOKENS.verify(&[b"q"], &cut).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn positions_of_any_length_are_read_back() {
        for length in [0, 1, 8, 9, POSITION_BYTES_MAX] {
            let position = vec![0xa5; length];
            let token = TOKENS.issue_bytes(&[b"q"], &position).unwrap();
            assert_eq!(TOKENS.verify_bytes(&[b"q"], &token), Ok(Some(position)), "{length} bytes");
        }
        assert_eq!(TOKENS.verify_bytes(&[b"q"], ""), Ok(None));
    }

    #[test]
    fn a_token_of_another_kind_is_refused() {
        let numbers = TOKENS.issue(&[b"q"], 42);
        let bytes = TOKENS.issue_bytes(&[b"q"], &42i64.to_be_bytes()).unwrap();
        assert!(TOKENS.verify_bytes(&[b"q"], &numbers).is_err());
        assert!(TOKENS.verify(&[b"q"], &bytes).is_err());
        assert!(TOKENS.verify_bytes(&[b"r"], &bytes).is_err(), "another query");
    }

    #[test]
    fn changed_position_is_refused() {
        let token = TOKENS.issue_bytes(&[b"q"], b"three").unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
        for at in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[at] ^= 1;
            assert!(TOKENS.verify_bytes(&[b"q"], &URL_SAFE_NO_PAD.encode(&forged)).is_err(), "byte {at}");
            let cut = URL_SAFE_NO_PAD.encode(&bytes[..at]);
            assert!(at == 0 || TOKENS.verify_bytes(&[b"q"], &cut).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn too_long_position_is_refused() {
        let long = [7; POSITION_BYTES_MAX + 1];
        assert_eq!(TOKENS.issue_bytes(&[b"q"], &long), None);
        // Its MAC is valid: only its length is wrong.
        assert!(TOKENS.verify_bytes(&[b"q"], &TOKENS.encode(BYTES, &[b"q"], &long)).is_err());
        assert!(TOKENS.verify_bytes(&[b"q"], &"A".repeat(TOKEN_CHARS_MAX + 1)).is_err());
    }

    #[test]
    fn page_sizes_have_a_default_and_a_limit() {
        let sizes = PageSizes { default: 50, max: 1000 };
        assert_eq!(sizes.of(0), Ok(50));
        assert_eq!(sizes.of(1), Ok(1));
        assert_eq!(sizes.of(1001), Ok(1000));
        assert!(sizes.of(-1).is_err());
    }
}
