//! A small table with hot entries in front of memory's storage.
//!
//! A hit in the storage costs the hash table's buckets, a note that the copy was used, now and then the work
//! on many such notes, and several cache lines for the entry. Here it costs a slot: the key's hash selects
//! two. A key's slots change only under the key's shard lock, so that one invalidation removes a copy from
//! both tables. A copy that the storage has evicted may be served from here until another replaces it.
//!
//! Each key has two slots. With a single slot each, and a third as many keys as slots, every seventh key
//! would collide with another. A sixteen-bit mark says which key is in a slot, so that reads for any other
//! key cost almost nothing here.
//!
//! One read in sixteen for a key without a slot is a vote for it. If a slot is empty one vote is enough; if
//! both are occupied it needs three, and more than other keys without a slot: Boyer and Moore's majority vote
//! (1981). One read in 64 for a key with a slot resets the votes against it, and also reads the storage, so
//! that its eviction counts the key. So a scan over many keys takes no slot from keys that are read often.

use std::sync::{
    OnceLock,
    atomic::{AtomicU8, AtomicU16, Ordering::Relaxed},
};

use parking_lot::{RwLock, RwLockReadGuard};

use super::entry_key::EntryKey;

/// Memory for each slot: the slots take some 2 % of the storage limit.
const BYTES_PER_SLOT: u64 = 2048;
const SLOTS_MAX: u64 = 1 << 17;
/// Pairs of slots that are created at a time.
const CHUNK: usize = 128;
/// A key takes a slot from another key with this many votes, less the votes of other keys without a slot, if
/// the other key has no sampled read in between.
const VOTES: u8 = 3;

type Copies<C> = [Option<(EntryKey, C)>; 2];
type CopiesGuard<'a, C> = RwLockReadGuard<'a, Copies<C>>;
/// Some pairs, created when any of them is first needed.
type Chunk<C> = OnceLock<Pairs<C>>;

/// Each key has the two slots in one pair, which it shares with others; it is in at most one slot.
pub(crate) struct HotEntries<C> {
    chunks: Box<[Chunk<C>]>,
}

/// Stored separately, so that the marks of all slots are in few cache lines.
struct Pairs<C> {
    marks: Box<[Marks]>,
    copies: Box<[RwLock<Copies<C>>]>,
}

/// The metadata for a pair's keys. Only hints: each field is read and written separately, and a race may lose
/// a vote.
#[derive(Default)]
struct Marks {
    /// The marks of the keys in the slots, zero for an empty slot; changed with the copies.
    here: [AtomicU16; 2],
    /// The candidate for a slot, and its votes.
    candidate: AtomicU16,
    votes: AtomicU8,
    /// The slot with the last sampled read.
    last_hit: AtomicU8,
}

impl<C: Clone> HotEntries<C> {
    /// Creates the table for a memory with this many bytes; a small memory has no slots.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let pairs = (memory_bytes / BYTES_PER_SLOT).min(SLOTS_MAX) / 2;
        let chunks = usize::try_from(pairs).unwrap_or(0) / CHUNK;
        let chunks = if chunks == 0 { 0 } else { 1 << chunks.ilog2() };
        Self { chunks: (0..chunks).map(|_| OnceLock::new()).collect() }
    }

    /// Returns what `look` sees in the key's copy, if it is here and its slots are not being changed.
    #[inline]
    pub(crate) fn get<R>(&self, key: EntryKey, look: impl FnOnce(&C) -> Option<R>) -> Option<R> {
        self.find(key, RwLock::try_read, look)
    }

    /// Like [`Self::get`], but waits while its slots are being changed.
    pub(crate) fn get_waiting<R>(&self, key: EntryKey, look: impl FnOnce(&C) -> Option<R>) -> Option<R> {
        self.find(key, |copies| Some(copies.read()), look)
    }

    /// Whether the key may be here, also while its slots are being changed. False is exact if the shard lock
    /// is held.
    pub(crate) fn may_hold(&self, key: EntryKey) -> bool {
        self.pair(key).is_some()
    }

    /// Counts a read for a key without a slot. True: it has earned a slot.
    pub(crate) fn vote(&self, key: EntryKey) -> bool {
        let Some(chunk) = self.chunk(key) else { return false };
        chunk.get().is_none_or(|pairs| pairs.marks[pair_index(key)].vote(mark(key)))
    }

    /// Records a read of a key with a slot.
    pub(crate) fn record_hit(&self, key: EntryKey) {
        if let Some((marks, _)) = self.pair(key) {
            marks.record_hit(mark(key));
        }
    }

    /// Puts a copy into its slot. Shard lock held.
    pub(crate) fn put(&self, key: EntryKey, copy: C) {
        let Some(chunk) = self.chunk(key) else { return };
        let pairs = chunk.get_or_init(Pairs::default);
        let (marks, mut copies) = (&pairs.marks[pair_index(key)], pairs.copies[pair_index(key)].write());
        let own = index_of(&copies, key).or_else(|| copies.iter().position(Option::is_none));
        let index = own.unwrap_or_else(|| marks.victim());
        marks.here[index].store(mark(key), Relaxed);
        let before = copies[index].replace((key, copy));
        drop(copies);
        drop(before);
    }

    /// Takes out the copy of the key. Shard lock held.
    pub(crate) fn remove(&self, key: EntryKey) -> Option<C> {
        let (marks, copies) = self.pair(key)?;
        let mut copies = copies.write();
        let index = index_of(&copies, key)?;
        marks.here[index].store(0, Relaxed);
        copies[index].take().map(|(_, copy)| copy)
    }

    #[inline]
    fn find<'a, R>(
        &'a self,
        key: EntryKey,
        lock: impl FnOnce(&'a RwLock<Copies<C>>) -> Option<CopiesGuard<'a, C>>,
        look: impl FnOnce(&C) -> Option<R>,
    ) -> Option<R> {
        let (_, copies) = self.pair(key)?;
        let copies = lock(copies)?;
        copies.iter().flatten().find(|(here, _)| *here == key).and_then(|(_, copy)| look(copy))
    }

    /// The slots that a key may be in. Exact while its shard lock is held: the key was inserted under the
    /// same lock, and its mark is removed only with its copy.
    #[inline]
    fn pair(&self, key: EntryKey) -> Option<(&Marks, &RwLock<Copies<C>>)> {
        let pairs = self.chunk(key)?.get()?;
        let marks = &pairs.marks[pair_index(key)];
        marks.slot_of(mark(key)).is_some().then(|| (marks, &pairs.copies[pair_index(key)]))
    }

    #[inline]
    fn chunk(&self, key: EntryKey) -> Option<&Chunk<C>> {
        let mask = u64::try_from(self.chunks.len().checked_sub(1)?).unwrap_or(0);
        self.chunks.get(usize::try_from((key.hash >> 8) & mask).unwrap_or(0))
    }
}

impl<C> Default for Pairs<C> {
    fn default() -> Self {
        Self {
            marks: (0..CHUNK).map(|_| Marks::default()).collect(),
            copies: (0..CHUNK).map(|_| RwLock::new([None, None])).collect(),
        }
    }
}

impl Marks {
    #[inline]
    fn slot_of(&self, mark: u16) -> Option<usize> {
        self.here.iter().position(|here| here.load(Relaxed) == mark)
    }

    fn record_hit(&self, mark: u16) {
        // Stored only if it differs: all processors read these cache lines.
        let hit = u8::from(self.slot_of(mark) == Some(1));
        if self.last_hit.load(Relaxed) != hit {
            self.last_hit.store(hit, Relaxed);
        }
        if self.votes.load(Relaxed) != 0 {
            self.votes.store(0, Relaxed);
        }
    }

    fn vote(&self, mark: u16) -> bool {
        let votes = self.votes.load(Relaxed);
        let is_candidate = self.candidate.load(Relaxed) == mark;
        if self.slot_of(0).is_some() || (is_candidate && votes + 1 >= VOTES) {
            self.votes.store(0, Relaxed);
            return true;
        }
        match (is_candidate, votes) {
            (true, _) => self.votes.store(votes + 1, Relaxed),
            (false, 0) => {
                self.candidate.store(mark, Relaxed);
                self.votes.store(1, Relaxed);
            }
            (false, _) => self.votes.store(votes - 1, Relaxed),
        }
        false
    }

    /// The slot to be replaced.
    fn victim(&self) -> usize {
        usize::from(self.last_hit.load(Relaxed) == 0)
    }
}

/// The index of a key, if it is here.
fn index_of<C>(copies: &Copies<C>, key: EntryKey) -> Option<usize> {
    copies.iter().position(|copy| copy.as_ref().is_some_and(|(here, _)| *here == key))
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "sixteen of its bits are meant")]
const fn mark(key: EntryKey) -> u16 {
    (key.hash >> 32) as u16 | 1
}

/// The pair within its chunk.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it is less than the number of pairs of a chunk")]
const fn pair_index(key: EntryKey) -> usize {
    (key.hash % CHUNK as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use parking_lot::RwLockWriteGuard;

    use super::*;
    use crate::{Moment, storage::NamespaceId};

    static HASHER: LazyLock<ahash::RandomState> = LazyLock::new(ahash::RandomState::new);

    fn place(key: u64) -> EntryKey {
        EntryKey { namespace: NamespaceId(0), hash: HASHER.hash_one(key) }
    }

    fn value(hot: &HotEntries<u64>, key: u64) -> Option<u64> {
        hot.get(place(key), |copy| Some(*copy))
    }

    #[test]
    fn copy_stays_until_removed_or_replaced() {
        let hot = HotEntries::new(1 << 20);
        (0..10_000).for_each(|key| hot.put(place(key), key));
        let cached: Vec<u64> = (0..10_000).filter(|key| value(&hot, *key).is_some()).collect();
        assert!((100..=512).contains(&cached.len()), "{}", cached.len());
        for key in cached {
            assert_eq!(value(&hot, key), Some(key));
            assert!(hot.remove(place(key)).is_some() && hot.remove(place(key)).is_none());
            assert_eq!(value(&hot, key), None);
        }
    }

    #[test]
    fn few_keys_collide_at_a_third_of_the_slots() {
        let hot = HotEntries::new(1 << 24);
        (0..2_720).for_each(|key| hot.put(place(key), key));
        let cached = (0..2_720).filter(|key| value(&hot, *key).is_some()).count();
        assert!(cached >= 2_450, "{cached} of 2,720: with one slot each some 2,310 would");
    }

    #[test]
    fn newer_copy_replaces_the_older_one() {
        let hot = HotEntries::new(1 << 20);
        for round in 0..3 {
            (0..2_000).for_each(|key| hot.put(place(key), key + round));
        }
        for key in 0..2_000 {
            assert!(value(&hot, key).is_none_or(|value| value == key + 2));
            hot.remove(place(key));
            assert_eq!(value(&hot, key), None, "it was stored twice");
        }
    }

    #[test]
    fn key_of_another_namespace_is_not_found() {
        let hot = HotEntries::new(1 << 20);
        hot.put(place(7), 1);
        let other = EntryKey { namespace: NamespaceId(1), ..place(7) };
        assert_eq!((hot.get(other, |copy| Some(*copy)), hot.remove(other)), (None, None));
        assert_eq!(value(&hot, 7), Some(1));
    }

    #[test]
    fn writer_waits_for_a_slot_reader_does_not() {
        let hot = HotEntries::new(1 << 20);
        hot.put(place(7), 1);
        let mut changing = hot.pair(place(7)).unwrap().1.write();
        assert_eq!(value(&hot, 7), None, "it is not waited for");
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| hot.get_waiting(place(7), |copy| Some(*copy)).is_some());
            while !reader.is_finished() {
                // Passes the lock to a waiting task, and to no other.
                RwLockWriteGuard::bump(&mut changing);
                std::thread::yield_now();
            }
            assert!(reader.join().unwrap());
        });
    }

    /// Two keys in one pair, and a candidate.
    fn three_of_a_pair(hot: &HotEntries<u64>) -> [u64; 3] {
        let of_pair = |key: &u64| (place(*key).hash & 0xffff) == (place(0).hash & 0xffff);
        let mut keys = (0..).filter(of_pair);
        let keys = [(); 3].map(|()| keys.next().unwrap());
        keys[..2].iter().for_each(|key| hot.put(place(*key), *key));
        keys
    }

    #[test]
    fn hotter_key_replaces_the_colder_one() {
        let hot = HotEntries::new(1 << 20);
        let [one, two, candidate] = three_of_a_pair(&hot);
        let vote = |key: u64| hot.vote(place(key));
        assert_eq!([candidate, candidate].map(vote), [false; 2]);
        hot.record_hit(place(one));
        assert_eq!([candidate, candidate, candidate].map(vote), [false, false, true]);
        hot.put(place(candidate), candidate);
        assert_eq!([one, two, candidate].map(|key| value(&hot, key)), [Some(one), None, Some(candidate)]);
    }

    #[test]
    fn scan_over_many_keys_takes_no_slot() {
        let hot = HotEntries::new(1 << 20);
        let [one, two, _] = three_of_a_pair(&hot);
        let earned = (100_000..200_000).filter(|key| hot.vote(place(*key)));
        earned.for_each(|key| hot.put(place(key), key));
        assert_eq!([one, two].map(|key| value(&hot, key)), [Some(one), Some(two)]);
    }

    #[test]
    fn empty_slot_takes_one_vote() {
        let hot: HotEntries<u64> = HotEntries::new(1 << 20);
        assert!(hot.vote(place(7)));
        let [one, _, candidate] = three_of_a_pair(&hot);
        assert!(!hot.vote(place(candidate)));
        hot.remove(place(one));
        assert!(hot.vote(place(candidate)));
    }

    #[test]
    fn key_may_be_present_while_its_slots_change() {
        let hot = HotEntries::new(1 << 20);
        hot.put(place(7), 1);
        let changing = hot.pair(place(7)).unwrap().1.write();
        assert_eq!((value(&hot, 7), hot.may_hold(place(7)), hot.may_hold(place(8))), (None, true, false));
        drop(changing);
    }

    #[test]
    fn small_memory_has_no_slots() {
        let hot = HotEntries::new(64 * 256);
        hot.put(place(7), 1);
        assert_eq!(value(&hot, 7), None);
        assert!(hot.remove(place(7)).is_none());
    }

    #[test]
    fn key_without_slot_is_sampled_more_often() {
        for key in (0..100).map(place) {
            let moments = || (0..640).map(Moment::new);
            assert_eq!(moments().filter(|now| key.is_vote(*now)).count(), 40);
            assert_eq!(moments().filter(|now| key.is_sampled_hit(*now)).count(), 10);
        }
    }
}
