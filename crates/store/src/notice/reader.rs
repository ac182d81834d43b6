//! Audience readers and their marks.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{Audience, AudienceEntry, AudienceId, ReadBits, Slot, read_bits::page_of};
use crate::{Invalid, Timestamp, Version, id::id};

/// A reader's dense index in its audience, from 0. Never reused.
pub type ReaderOrdinal = u32;

id! {
    /// Identifies a reader within its audience. 1 to `i64::MAX`.
    ReaderId
}

/// Identifies a reader. An id in two audiences means two readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReaderKey {
    /// The reader's audience.
    pub audience: AudienceId,
    /// The reader within it.
    pub reader: ReaderId,
}

impl fmt::Display for ReaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.audience, self.reader)
    }
}

impl FromStr for ReaderKey {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (audience, reader) = text.split_once(',').ok_or(Invalid::fixed("must be AUDIENCE,READER"))?;
        Ok(Self { audience: audience.parse()?, reader: reader.parse()? })
    }
}

/// The `since` of a reader that was forgotten: it sees notices from the time on when the user that has its id
/// now was created. Nothing is visible to it while no user has the id.
pub const SINCE_CREATION: Timestamp = Timestamp(i64::MAX);

/// A reader's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeReader {
    /// The reader's key.
    pub key: ReaderKey,
    /// The version, which each write that changes a bit raises.
    pub version: Version,
    /// Its position among the audience's readers. Never changes.
    pub ordinal: ReaderOrdinal,
    /// The publish time from which on it sees notices.
    pub since: Timestamp,
    /// The notices that it has read and confirmed.
    pub bits: ReadBits,
}

impl NoticeReader {
    /// The reader after a mark; `None`: the mark changes nothing. A mark that changes something drops the
    /// words on `dead_pages`.
    #[must_use]
    pub fn marked(&self, mark: &ReaderMark, dead_pages: &[u32]) -> Option<Self> {
        let (since, bits) = match mark {
            ReaderMark::Read(slots) if slots.iter().all(|slot| self.bits.has(*slot)) => return None,
            ReaderMark::Read(slots) => (self.since, self.bits.with(slots)),
            ReaderMark::Unread(slots) if !slots.iter().any(|slot| self.bits.has(*slot)) => return None,
            ReaderMark::Unread(slots) => (self.since, self.bits.without(slots)),
            ReaderMark::Forget(since) if *since <= self.since && self.bits.slots().next().is_none() => {
                return None;
            }
            ReaderMark::Forget(since) => (self.since.max(*since), ReadBits::default()),
        };
        let bits = bits.without_pages(dead_pages);
        Some(Self { version: self.version.next(), since, bits, ..self.clone() })
    }

    /// The record's approximate size in memory, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.bits.weight()
    }
}

/// The change that a mark makes to a reader's bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReaderMark {
    /// Sets these bits.
    Read(Vec<Slot>),
    /// Clears these bits.
    Unread(Vec<Slot>),
    /// Clears all bits, and raises `since` to this time, which is [`SINCE_CREATION`] if another user may get
    /// the id.
    Forget(Timestamp),
}

impl ReaderMark {
    /// The bits that it names.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        match self {
            Self::Read(slots) | Self::Unread(slots) => slots,
            Self::Forget(_) => &[],
        }
    }
}

/// A reader after a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedReader {
    /// The stored reader.
    pub reader: NoticeReader,
    /// Whether the mark changed it.
    pub is_changed: bool,
}

/// A reader with a single word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedReader {
    /// Its position in the audience.
    pub ordinal: ReaderOrdinal,
    /// The reader's id.
    pub reader: ReaderId,
    /// The publish time from which on it sees notices.
    pub since: Timestamp,
    /// The requested page's word.
    pub word: u64,
}

impl ScannedReader {
    /// Whether a slot's bit on the requested page is set.
    #[must_use]
    pub const fn has(&self, slot: Slot) -> bool {
        self.word & (1 << (slot % 64)) != 0
    }
}

/// How many readers an audience has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderExtent {
    /// Registered readers.
    pub readers: u64,
    /// The highest ordinal plus 1. There may be ordinals below it that no reader has.
    pub end: ReaderOrdinal,
}

/// Counts the notices that are visible to a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticeTotals {
    /// Notices that were read.
    pub read: u32,
    /// Unread notices.
    pub unread: u32,
    /// Notices that need a confirmation and have none.
    pub unconfirmed: u32,
}

impl NoticeTotals {
    /// Counts for a reader with this `since` and these bits.
    #[must_use]
    pub fn of(audience: &Audience, since: Timestamp, bits: &ReadBits, now: Timestamp) -> Self {
        let mut totals = Self::default();
        // Entries on the same page are mostly adjacent.
        let mut word = (0, bits.word(0));
        let mut has = |slot: Slot| {
            if word.0 != page_of(slot) {
                word = (page_of(slot), bits.word(page_of(slot)));
            }
            word.1 & (1 << (slot % 64)) != 0
        };
        for entry in audience.entries.iter().filter(|entry| entry.is_visible(since, now)) {
            let AudienceEntry { slot, confirm_slot, .. } = *entry;
            if has(slot) {
                totals.read += 1
            } else {
                totals.unread += 1
            }
            totals.unconfirmed += u32::from(confirm_slot.is_some_and(|slot| !has(slot)));
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(slots: &[Slot]) -> NoticeReader {
        NoticeReader {
            key: "7,42".parse().unwrap(),
            version: Version::FIRST,
            ordinal: 3,
            since: Timestamp(10),
            bits: ReadBits::default().with(slots),
        }
    }

    #[test]
    fn keys_come_back_from_their_text() {
        let key = reader(&[]).key;
        assert_eq!((key.to_string().as_str(), key.audience.get(), key.reader.get()), ("7,42", 7, 42));
        for wrong in ["", "7", "7,", ",42", "0,1", "1,0", "2147483648,1", "1,2,3", "-1,1"] {
            assert!(wrong.parse::<ReaderKey>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn mark_that_changes_nothing_leaves_the_version() {
        assert_eq!(reader(&[1, 64]).marked(&ReaderMark::Read(vec![64, 1]), &[]), None);
        assert_eq!(reader(&[1]).marked(&ReaderMark::Unread(vec![2, 65]), &[]), None);
        assert_eq!(reader(&[]).marked(&ReaderMark::Forget(Timestamp(10)), &[]), None);
    }

    #[test]
    fn marks_change_named_bits_and_drop_dead_pages() {
        let read = reader(&[1, 700]).marked(&ReaderMark::Read(vec![2]), &[10]).unwrap();
        assert_eq!((read.bits.slots().collect::<Vec<_>>(), read.version.get()), (vec![1, 2], 2));
        let unread = reader(&[1, 2]).marked(&ReaderMark::Unread(vec![2, 3]), &[]).unwrap();
        assert_eq!(unread.bits.slots().collect::<Vec<_>>(), [1]);
        let forgotten = reader(&[1]).marked(&ReaderMark::Forget(Timestamp(20)), &[]).unwrap();
        assert_eq!((forgotten.bits, forgotten.since), (ReadBits::default(), Timestamp(20)));
        let forgotten = reader(&[1]).marked(&ReaderMark::Forget(SINCE_CREATION), &[]).unwrap();
        assert_eq!(forgotten.since, SINCE_CREATION);
        assert_eq!(forgotten.marked(&ReaderMark::Forget(SINCE_CREATION), &[]), None);
    }
}
