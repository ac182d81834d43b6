//! The binary header that every cell in the shared server has. The Lua scripts read the same bytes, so a
//! layout change must change them, too.

use super::wire_version::wire_format;
use crate::Version;

/// Bytes before the payload of every value.
pub const HEADER_BYTES: usize = 32;

/// First byte of every value; a value with another first byte is foreign.
const MAGIC: u8 = b'K';
/// Format of the header.
const FORMAT: u8 = 1;

/// The kinds of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CellKind {
    /// A record's value.
    Value = 1,
    /// The record does not exist.
    Null = 2,
    /// A tomb: the record has at least this version; its value is not kept.
    Tomb = 3,
    /// A load is in progress, and only its token may fill.
    Lease = 4,
}

/// The header before the payload: a hit is one plain GET, without a second request.
///
/// Magic, format, kind, codec (one byte each), schema (two bytes, big-endian), a zero byte, whether a reader
/// waits (one byte), version, token and time of writing (eight bytes each, big-endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the cell.
    pub kind: CellKind,
    /// The compression of the payload; 0: none.
    pub codec: u8,
    /// Schema of the payload, by namespace. A different one than the reader's is a miss.
    pub schema: u16,
    /// For a lease: another load waits for its end.
    pub waited: bool,
    /// The value's version; the floor of a tomb or lease.
    pub version: Version,
    /// The token of the load that wrote or will write it.
    pub token: u64,
    /// Milliseconds since 1970 by the writer's clock. For the display of ages, never for order.
    pub written_ms: u64,
}

impl Header {
    /// A header without payload of this kind.
    #[must_use]
    pub const fn bare(kind: CellKind, version: Version, token: u64) -> Self {
        Self { kind, codec: 0, schema: 0, waited: false, version, token, written_ms: 0 }
    }

    /// Whether the cell holds a record or its absence.
    pub(crate) const fn is_copy(&self) -> bool {
        matches!(self.kind, CellKind::Value | CellKind::Null)
    }

    /// The first bytes of every header in this version.
    #[must_use]
    pub fn mark() -> [u8; 2] {
        [MAGIC, wire_format(FORMAT)]
    }

    /// Returns the header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&Self::mark());
        bytes[2..4].copy_from_slice(&[self.kind as u8, self.codec]);
        bytes[4..6].copy_from_slice(&self.schema.to_be_bytes());
        bytes[7] = u8::from(self.waited);
        bytes[8..16].copy_from_slice(&self.version.get().to_be_bytes());
        bytes[16..24].copy_from_slice(&self.token.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.written_ms.to_be_bytes());
        bytes
    }

    /// Reads the header and the payload after it. `None`: a foreign product or format, which is a miss and
    /// never an error, because the server's contents are input like any other.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, payload) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        if head[..2] != Self::mark() {
            return None;
        }
        let header = Self {
            kind: kind(head[2])?,
            codec: head[3],
            schema: u16::from_be_bytes([head[4], head[5]]),
            waited: head[7] == 1,
            version: Version::new(number(head, 8)),
            token: number(head, 16),
            written_ms: number(head, 24),
        };
        Some((header, payload))
    }
}

fn kind(number: u8) -> Option<CellKind> {
    [CellKind::Value, CellKind::Null, CellKind::Tomb, CellKind::Lease]
        .into_iter()
        .find(|kind| *kind as u8 == number)
}

fn number(head: &[u8; HEADER_BYTES], at: usize) -> u64 {
    head[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn header_round_trips(
            (number, codec, schema, waited) in (1..=4_u8, any::<u8>(), any::<u16>(), any::<bool>()),
            (version, token, written_ms) in any::<(u64, u64, u64)>(),
            payload in any::<Vec<u8>>(),
        ) {
            let kind = kind(number).unwrap();
            let header = Header { kind, codec, schema, waited, version: Version::new(version), token, written_ms };
            let bytes = [&header.encode()[..], &payload].concat();
            prop_assert_eq!(Header::decode(&bytes), Some((header, payload.as_slice())));
        }

        #[test]
        fn foreign_bytes_are_never_a_panic(bytes in any::<Vec<u8>>()) {
            if let Some((header, _)) = Header::decode(&bytes) {
                prop_assert_eq!(&header.encode()[..6], &bytes[..6]);
            }
        }
    }

    #[test]
    fn unknown_format_or_kind_is_not_decoded() {
        let good = Header::bare(CellKind::Tomb, Version::new(1), 0).encode();
        for (at, byte) in [(0, b'k'), (1, 2), (2, 0), (2, 5)] {
            let mut bad = good;
            bad[at] = byte;
            assert_eq!(Header::decode(&bad), None);
        }
        assert_eq!(Header::decode(&good[..31]), None);
    }
}
