//! An entry's address in memory: its namespace and its key's hash.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::Moment;

/// One in this many reads is sampled: separately for keys among the hot entries and for other keys.
const HIT_SAMPLE: u64 = 64;
const VOTE_SAMPLE: u64 = 16;

/// A namespace's number in its node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceId(pub(crate) u16);

/// Where a key's copy is. Two keys may have the same place, which is rare: the copy itself has the key, so
/// that a reader never gets another key's copy. The two keys drop each other's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryKey {
    pub(crate) namespace: NamespaceId,
    /// Keyed at random, differently in each namespace.
    pub(crate) hash: u64,
}

impl EntryKey {
    /// Whether a read of a hot entry at this moment is sampled.
    #[inline]
    pub(crate) const fn is_sampled_hit(self, now: Moment) -> bool {
        self.is_sampled(now, HIT_SAMPLE)
    }

    /// Whether a read of an entry that is not hot is a vote at this moment.
    #[inline]
    pub(crate) const fn is_vote(self, now: Moment) -> bool {
        self.is_sampled(now, VOTE_SAMPLE)
    }

    #[inline]
    const fn is_sampled(self, now: Moment, sample: u64) -> bool {
        (self.hash >> 48).wrapping_add(now.get()).is_multiple_of(sample)
    }
}

impl Hash for EntryKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Takes the hash that an [`EntryKey`] already is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FinishedHash(u64);

pub(crate) type FinishedHashes = BuildHasherDefault<FinishedHash>;

impl Hasher for FinishedHash {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
