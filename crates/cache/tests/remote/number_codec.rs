//! Records that are numbers.

use kith_cache::remote::Codec;

/// Encodes a number as eight bytes.
#[derive(Debug)]
pub(crate) struct NumberCodec;

impl Codec<u64> for NumberCodec {
    fn schema(&self) -> u16 {
        1
    }

    fn encode(&self, number: &u64) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }
}
