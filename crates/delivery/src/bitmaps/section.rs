//! The layout of reader bitmaps: an audience is divided into sections with 64,000 consecutive ordinals, and
//! bits have Redis's order.

use std::ops::Range;

#[cfg(feature = "redis")]
use bytes::Bytes;
use kith_store::{AudienceId, ReaderOrdinal};

/// A section's readers: their bits and the flag fit 8 KiB, the largest block that Redis allocates without
/// waste.
const READERS: u32 = 64_000;

/// Consecutive ordinals in an audience.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReaderSection {
    /// The section's audience.
    pub audience: AudienceId,
    /// The section's number. Starts at 0.
    pub number: u32,
}

impl ReaderSection {
    /// A reader's section.
    #[must_use]
    pub const fn of(audience: AudienceId, reader: ReaderOrdinal) -> Self {
        Self { audience, number: reader / READERS }
    }

    /// The sections for the ordinals below `end`.
    pub fn below(audience: AudienceId, end: ReaderOrdinal) -> impl Iterator<Item = Self> {
        (0..end.div_ceil(READERS)).map(move |number| Self { audience, number })
    }

    /// The section's ordinals.
    #[must_use]
    pub const fn ordinals(self) -> Range<ReaderOrdinal> {
        let first = self.number.saturating_mul(READERS);
        first..first.saturating_add(READERS)
    }

    /// A reader's bit in its section's bitmaps. Bit 0 is the flag.
    #[must_use]
    pub(super) const fn bit(reader: ReaderOrdinal) -> u32 {
        1 + reader % READERS
    }
}

/// The bits in a section that a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SectionBits(Vec<u8>);

impl SectionBits {
    /// Sets the bit for a reader in the section.
    pub fn set(&mut self, reader: ReaderOrdinal) {
        let bit = ReaderSection::bit(reader);
        let byte = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        if self.0.len() <= byte {
            self.0.resize(byte + 1, 0);
        }
        // Redis counts a byte's bits from the highest.
        self.0[byte] |= 0x80 >> (bit % 8);
    }

    #[cfg(feature = "redis")]
    pub(super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audience() -> AudienceId {
        AudienceId::new(7).unwrap()
    }

    #[test]
    fn sections_cover_all_ordinals_once() {
        assert_eq!(ReaderSection::of(audience(), 63_999).number, 0);
        assert_eq!(ReaderSection::of(audience(), 64_000).number, 1);
        let numbers =
            |end| ReaderSection::below(audience(), end).map(|section| section.number).collect::<Vec<_>>();
        assert_eq!(
            (numbers(0), numbers(1), numbers(64_000), numbers(64_001)),
            (vec![], vec![0], vec![0], vec![0, 1])
        );
        assert_eq!(ReaderSection { audience: audience(), number: 1 }.ordinals(), 64_000..128_000);
    }

    #[test]
    fn bits_are_where_redis_has_them() {
        let mut bits = SectionBits::default();
        bits.set(0);
        bits.set(64_006);
        assert_eq!(bits.clone().into_bytes(), [0b0100_0001_u8][..]);
        bits.set(63_999);
        let bytes = bits.into_bytes();
        assert_eq!((bytes.len(), bytes[8_000]), (8_001, 0x80));
    }
}
