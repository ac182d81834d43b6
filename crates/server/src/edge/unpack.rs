//! Unpacks messages that come compressed.
//!
//! tonic unpacks them, too, but with the limit for a service's largest message, and nothing sees how large
//! they are before they are decoded, which costs far more.

use std::io::{self, Read};

use http::{HeaderMap, HeaderName};

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// The largest window that a Zstandard decoder must have (RFC 8878), as a power of two: 8 MiB. For a message
/// that asks for a larger window, as many bytes would be allocated.
const WINDOW_LOG_MAX: u32 = 23;

/// How a request's messages are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
}

/// The reason why a message cannot be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnpackError {
    TooLarge,
    Malformed,
}

impl From<io::Error> for UnpackError {
    fn from(_: io::Error) -> Self {
        Self::Malformed
    }
}

impl Packing {
    /// Takes the encoding out of the headers, so that the service gets its messages unpacked. An unknown
    /// encoding stays: the service refuses it.
    pub(super) fn take(headers: &mut HeaderMap) -> Option<Self> {
        let packing = match headers.get(&ENCODING)?.as_bytes() {
            b"gzip" => Self::Gzip,
            b"zstd" => Self::Zstd,
            _ => return None,
        };
        headers.remove(&ENCODING);
        Some(packing)
    }

    /// Unpacks at most `most` bytes of a message, and stops there.
    pub(super) fn unpack(self, packed: &[u8], most: usize) -> Result<Vec<u8>, UnpackError> {
        match self {
            Self::Gzip => read_bounded(flate2::bufread::GzDecoder::new(packed), most),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
                decoder.window_log_max(WINDOW_LOG_MAX)?;
                read_bounded(decoder, most)
            }
        }
    }
}

fn read_bounded(from: impl Read, most: usize) -> Result<Vec<u8>, UnpackError> {
    let mut message = Vec::new();
    let one_more = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    from.take(one_more).read_to_end(&mut message)?;
    if message.len() > most { Err(UnpackError::TooLarge) } else { Ok(message) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use http::HeaderValue;

    use super::*;

    fn packed(message: &[u8]) -> [(Packing, Vec<u8>); 2] {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(message).unwrap();
        let zstd = zstd::stream::encode_all(message, 0).unwrap();
        [(Packing::Gzip, gzip.finish().unwrap()), (Packing::Zstd, zstd)]
    }

    #[test]
    fn message_is_unpacked_up_to_its_limit() {
        for length in [0, 1, 1_000, 100_000] {
            let message = vec![7; length];
            for (packing, packed) in packed(&message) {
                assert_eq!(packing.unpack(&packed, length).as_ref(), Ok(&message), "{packing:?}");
                if let Some(less) = length.checked_sub(1) {
                    assert_eq!(packing.unpack(&packed, less), Err(UnpackError::TooLarge), "{packing:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_packed_is_malformed() {
        for (packing, packed) in packed(&[7; 1_000]) {
            for wrong in [&packed[..packed.len() - 1], &packed[1..], b"", b"no"] {
                let unpacked = packing.unpack(wrong, 1 << 20);
                assert_eq!(unpacked, Err(UnpackError::Malformed), "{packing:?} {wrong:?}");
            }
        }
    }

    #[test]
    fn zstd_window_is_bounded() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&[7; 1_000]).unwrap();
        let unpacked = Packing::Zstd.unpack(&encoder.finish().unwrap(), 1 << 20);
        assert_eq!(unpacked, Err(UnpackError::Malformed));
    }

    #[test]
    fn known_packings_are_taken_out_of_the_headers() {
        let taken = |value: &'static str| {
            let mut headers = HeaderMap::from_iter([(ENCODING, HeaderValue::from_static(value))]);
            (Packing::take(&mut headers), headers.is_empty())
        };
        assert_eq!(taken("gzip"), (Some(Packing::Gzip), true));
        assert_eq!(taken("zstd"), (Some(Packing::Zstd), true));
        for left in ["identity", "br", ""] {
            assert_eq!(taken(left), (None, false), "{left}");
        }
    }
}
