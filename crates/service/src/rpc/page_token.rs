//! Page tokens: where a list goes on, sealed so that only Kith can make one.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use kith_store::Invalid;
use sha2::Sha256;

use crate::error::Error;

const FORMAT: u8 = 1;
const SEAL_BYTES: usize = 16;

/// Sizes of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageSizes {
    /// For 0.
    pub default: usize,
    /// A larger one counts as this.
    pub max: usize,
}

impl PageSizes {
    /// The size that a request gets.
    ///
    /// # Errors
    /// Below 0.
    pub fn of(self, asked: i32) -> Result<usize, Error> {
        match usize::try_from(asked) {
            Ok(0) => Ok(self.default),
            Ok(size) => Ok(size.min(self.max)),
            Err(_) => Err(Error::invalid("page_size", &Invalid::new("must not be below 0"))),
        }
    }
}

/// Makes and reads page tokens. Each is bound to the query that it belongs to: with another one it is refused.
#[derive(Clone)]
pub struct PageTokens {
    key: [u8; 32],
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
        Self { key }
    }

    /// The token for what comes above the id `after` in the answer to `query`.
    #[must_use]
    pub fn seal(&self, query: &[&[u8]], after: i64) -> String {
        self.seal_all(query, [after])
    }

    /// The id above which the answer to `query` goes on; `None` for the first page.
    ///
    /// # Errors
    /// When the token was not made for this query.
    pub fn open(&self, query: &[&[u8]], token: &str) -> Result<Option<i64>, Error> {
        Ok(self.open_all(query, token)?.map(|[after]| after))
    }

    /// As [`Self::seal`], of a place that takes several numbers to name.
    #[must_use]
    pub fn seal_all<const N: usize>(&self, query: &[&[u8]], after: [i64; N]) -> String {
        let mut token = vec![FORMAT];
        token.extend(after.iter().flat_map(|number| number.to_be_bytes()));
        let seal = self.mac(query, &token).finalize().into_bytes();
        token.extend(&seal[..SEAL_BYTES]);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// As [`Self::open`], of a place that takes several numbers to name.
    ///
    /// # Errors
    /// As there.
    pub fn open_all<const N: usize>(&self, query: &[&[u8]], token: &str) -> Result<Option<[i64; N]>, Error> {
        if token.is_empty() {
            return Ok(None);
        }
        let refused = || Error::invalid("page_token", &Invalid::new("must be one that this query returned"));
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| refused())?;
        let (body, seal) = bytes.split_at_checked(1 + 8 * N).ok_or_else(refused)?;
        self.mac(query, body).verify_truncated_left(seal).map_err(|_| refused())?;
        if seal.len() != SEAL_BYTES || body[0] != FORMAT {
            return Err(refused());
        }
        let mut after = [0; N];
        for (number, bytes) in after.iter_mut().zip(body[1..].chunks_exact(8)) {
            *number = i64::from_be_bytes(bytes.try_into().map_err(|_| refused())?);
        }
        Ok(Some(after))
    }

    fn mac(&self, query: &[&[u8]], body: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).unwrap_or_else(|_| unreachable!("any length is a key"));
        for part in query {
            mac.update(&part.len().to_be_bytes());
            mac.update(part);
        }
        mac.update(body);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: PageTokens = PageTokens::new([7; 32]);

    #[test]
    fn a_token_opens_for_its_own_query_alone() {
        let token = TOKENS.seal(&[b"users", b"ann"], 42);
        assert_eq!(TOKENS.open(&[b"users", b"ann"], &token), Ok(Some(42)));
        assert!(TOKENS.open(&[b"users", b"bob"], &token).is_err());
        assert!(TOKENS.open(&[b"user", b"sann"], &token).is_err());
        assert!(PageTokens::new([8; 32]).open(&[b"users", b"ann"], &token).is_err());
    }

    #[test]
    fn a_place_of_several_numbers_is_read_back_and_by_nobody_as_another_one() {
        let token = TOKENS.seal_all(&[b"q"], [1, -2, i64::MAX]);
        assert_eq!(TOKENS.open_all(&[b"q"], &token), Ok(Some([1, -2, i64::MAX])));
        assert!(TOKENS.open(&[b"q"], &token).is_err() && TOKENS.open_all::<2>(&[b"q"], &token).is_err());
    }

    #[test]
    fn no_bit_of_a_token_can_be_changed() {
        let bytes = URL_SAFE_NO_PAD.decode(TOKENS.seal(&[b"q"], 42)).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(TOKENS.open(&[b"q"], &URL_SAFE_NO_PAD.encode(forged)).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            let cut = URL_SAFE_NO_PAD.encode(&bytes[..length]);
            assert!(length == 0 || TOKENS.open(&[b"q"], &cut).is_err(), "{length} bytes");
        }
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
