//! A small table of hot entries in front of the storage of memory.
//!
//! A hit in the storage costs the lock of a part of it, a bucket of a hash table, and a cache line for the entry. Here
//! it costs one of two slots that the hash of the key selects. A key's slots change only under the shard lock of the
//! key, so that one invalidation removes a copy from both tables. A copy that the storage has evicted may be served
//! from here until another replaces it. In this module a slot is a position in the table; the type [`Slot`] is a copy.
//!
//! Each key has two slots and not one. With one slot each, and a third as many keys as slots, one key in seven would
//! collide with another. A mark of sixteen bits says which key is in a slot, so that a read of any other key costs
//! almost nothing here.
//!
//! One read in sixteen of a key without a slot is a vote for it. If a slot is empty one vote is enough; if both are
//! occupied it needs three, and more than other keys without a slot: the majority vote of Boyer and Moore (1981). One
//! read in 64 of a key with a slot resets the votes against it, and also reads the storage, so that its eviction counts
//! the key. So a scan over many keys takes no slot from those that are read often.

use std::sync::{
    OnceLock,
    atomic::{AtomicU8, AtomicU16, Ordering::Relaxed},
};

use parking_lot::{RwLock, RwLockReadGuard};

use super::slot::Slot;
use crate::Moment;

/// Memory for each slot: the entries here cost some 4 % of the limit of the storage.
const BYTES_PER_SLOT: u64 = 2048;
const SLOTS_MAX: u64 = 1 << 15;
/// Pairs of slots that are created at a time.
const CHUNK: usize = 128;
/// A larger copy gets no slot. So copies that the storage has evicted, and that are still here, take at most a quarter of
/// the limit of memory.
const SIZE_MAX: u32 = 512;
/// One in this many reads is sampled: of keys with a slot, and of keys without.
const HIT_SAMPLE: u64 = 64;
const VOTE_SAMPLE: u64 = 16;
/// A key takes a slot from another key with this many votes, less the votes of other keys without a slot, if the other key
/// has no sampled read in between.
const VOTES: u8 = 3;

type Copies<K, V> = [Option<(K, Slot<V>)>; 2];
type CopiesGuard<'a, K, V> = RwLockReadGuard<'a, Copies<K, V>>;
/// Some pairs, created when one of them is first needed.
type Chunk<K, V> = OnceLock<Pairs<K, V>>;

/// Each key has the two slots of one pair, which it shares with others; it is in one of them at most.
pub(crate) struct HotEntries<K, V> {
    chunks: Box<[Chunk<K, V>]>,
    hasher: ahash::RandomState,
}

/// The hash of a key, which selects its pair and is its mark there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHash(u64);

/// Stored separately, so that the marks of all slots are in few cache lines.
struct Pairs<K, V> {
    marks: Box<[Marks]>,
    copies: Box<[RwLock<Copies<K, V>>]>,
}

/// The metadata of the keys of a pair. Only hints: each field is read and written separately, and a race may lose a vote.
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

impl KeyHash {
    /// Whether a read of a key with a slot at this moment is sampled.
    #[inline]
    pub(crate) const fn is_sampled_hit(self, now: Moment) -> bool {
        self.is_sampled(now, HIT_SAMPLE)
    }

    /// Whether a read of a key without a slot at this moment is a vote.
    #[inline]
    pub(crate) const fn is_vote(self, now: Moment) -> bool {
        self.is_sampled(now, VOTE_SAMPLE)
    }

    #[inline]
    const fn is_sampled(self, now: Moment, sample: u64) -> bool {
        (self.0 >> 48).wrapping_add(now.get()).is_multiple_of(sample)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "sixteen of its bits are meant")]
    const fn mark(self) -> u16 {
        (self.0 >> 32) as u16 | 1
    }
}

impl<K: std::hash::Hash + Eq + Clone, V> HotEntries<K, V> {
    /// Creates it for a memory of this many bytes; a small one has no slots.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let pairs = (memory_bytes / BYTES_PER_SLOT).min(SLOTS_MAX) / 2;
        let chunks = usize::try_from(pairs).unwrap_or(0) / CHUNK;
        let chunks = if chunks == 0 { 0 } else { 1 << chunks.ilog2() };
        Self { chunks: (0..chunks).map(|_| OnceLock::new()).collect(), hasher: ahash::RandomState::new() }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &K) -> KeyHash {
        KeyHash(self.hasher.hash_one(key))
    }

    /// The copy of the key, if it is here and its slots are not being changed.
    #[inline]
    pub(crate) fn get(&self, hash: KeyHash, key: &K) -> Option<Slot<V>> {
        self.find(hash, key, RwLock::try_read)
    }

    /// The copy of the key, if it is here. Waits for a change of its slots.
    pub(crate) fn get_waiting(&self, key: &K) -> Option<Slot<V>> {
        self.find(self.hash(key), key, |copies| Some(copies.read()))
    }

    /// Whether the key may be here, also while its slots are being changed. False is exact if the shard lock is held.
    pub(crate) fn may_hold(&self, key: &K) -> bool {
        self.pair(self.hash(key)).is_some()
    }

    /// Whether such a copy may have a slot.
    pub(crate) fn accepts(&self, slot: &Slot<V>) -> bool {
        slot.size <= SIZE_MAX && !self.chunks.is_empty()
    }

    /// Counts a read of a key without a slot. True: it has earned one.
    pub(crate) fn vote(&self, hash: KeyHash) -> bool {
        let Some(chunk) = self.chunk(hash) else { return false };
        chunk.get().is_none_or(|pairs| pairs.marks[pair_index(hash)].vote(hash.mark()))
    }

    /// Records a read of a key with a slot.
    pub(crate) fn record_hit(&self, hash: KeyHash) {
        if let Some((marks, _)) = self.pair(hash) {
            marks.record_hit(hash.mark());
        }
    }

    /// Puts a copy into its slot. Shard lock held.
    pub(crate) fn put(&self, key: &K, slot: &Slot<V>) {
        let hash = self.hash(key);
        let Some(chunk) = self.chunk(hash) else { return };
        if !self.accepts(slot) {
            drop(self.remove(key));
            return;
        }
        let pairs = chunk.get_or_init(Pairs::default);
        // Cloned before the lock is taken: if that panics, the mark and the copy still belong to the same key.
        let copy = (key.clone(), slot.clone());
        let (marks, mut copies) = (&pairs.marks[pair_index(hash)], pairs.copies[pair_index(hash)].write());
        let own = index_of(&copies, key).or_else(|| copies.iter().position(Option::is_none));
        let index = own.unwrap_or_else(|| marks.victim());
        marks.here[index].store(hash.mark(), Relaxed);
        let before = copies[index].replace(copy);
        drop(copies);
        drop(before);
    }

    /// Takes out the copy of the key. Shard lock held.
    pub(crate) fn remove(&self, key: &K) -> Option<Slot<V>> {
        let hash = self.hash(key);
        let (marks, copies) = self.pair(hash)?;
        let mut copies = copies.write();
        let index = index_of(&copies, key)?;
        marks.here[index].store(0, Relaxed);
        copies[index].take().map(|(_, slot)| slot)
    }

    #[inline]
    fn find<'a>(
        &'a self,
        hash: KeyHash,
        key: &K,
        look: impl FnOnce(&'a RwLock<Copies<K, V>>) -> Option<CopiesGuard<'a, K, V>>,
    ) -> Option<Slot<V>> {
        let (_, copies) = self.pair(hash)?;
        let copies = look(copies)?;
        copies.iter().flatten().find(|(here, _)| here == key).map(|(_, slot)| slot.clone())
    }

    /// The slots of a key, if it may be there. Exact for a holder of its shard lock: the key was inserted under the
    /// same lock, and its mark is removed only with its copy.
    #[inline]
    fn pair(&self, hash: KeyHash) -> Option<(&Marks, &RwLock<Copies<K, V>>)> {
        let pairs = self.chunk(hash)?.get()?;
        let marks = &pairs.marks[pair_index(hash)];
        marks.slot_of(hash.mark()).is_some().then(|| (marks, &pairs.copies[pair_index(hash)]))
    }

    #[inline]
    fn chunk(&self, hash: KeyHash) -> Option<&Chunk<K, V>> {
        let mask = u64::try_from(self.chunks.len().checked_sub(1)?).unwrap_or(0);
        self.chunks.get(usize::try_from((hash.0 >> 8) & mask).unwrap_or(0))
    }
}

impl<K, V> Default for Pairs<K, V> {
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
fn index_of<K: Eq, V>(copies: &Copies<K, V>, key: &K) -> Option<usize> {
    copies.iter().position(|copy| copy.as_ref().is_some_and(|(here, _)| here == key))
}

/// The pair within its chunk.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it is less than the number of pairs of a chunk")]
const fn pair_index(hash: KeyHash) -> usize {
    (hash.0 % CHUNK as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::RwLockWriteGuard;

    use super::*;
    use crate::Version;

    fn slot(value: u64, size: u32) -> Slot<u64> {
        let (value, version) = (Some(Arc::new(value)), Version::UNVERSIONED);
        Slot { value, version, read_at: Moment::new(0), ttl: 0, refresh: 0, size, flush: 0 }
    }

    fn value(hot: &HotEntries<u64, u64>, key: u64) -> Option<u64> {
        hot.get(hot.hash(&key), &key).and_then(|slot| slot.value).map(|value| *value)
    }

    #[test]
    fn copy_stays_until_removed_or_replaced() {
        let hot = HotEntries::new(1 << 20);
        (0..10_000).for_each(|key| hot.put(&key, &slot(key, 100)));
        let cached: Vec<u64> = (0..10_000).filter(|key| value(&hot, *key).is_some()).collect();
        assert!((100..=512).contains(&cached.len()), "{}", cached.len());
        for key in cached {
            assert_eq!(value(&hot, key), Some(key));
            assert!(hot.remove(&key).is_some() && hot.remove(&key).is_none());
            assert_eq!(value(&hot, key), None);
        }
    }

    #[test]
    fn few_keys_collide_at_a_third_of_the_slots() {
        let hot = HotEntries::new(1 << 24);
        (0..2_720).for_each(|key| hot.put(&key, &slot(key, 100)));
        let cached = (0..2_720).filter(|key| value(&hot, *key).is_some()).count();
        assert!(cached >= 2_450, "{cached} of 2,720: with one slot each some 2,310 would");
    }

    #[test]
    fn newer_copy_replaces_the_older_one() {
        let hot = HotEntries::new(1 << 20);
        for round in 0..3 {
            (0..2_000).for_each(|key| hot.put(&key, &slot(key + round, 100)));
        }
        for key in 0..2_000 {
            assert!(value(&hot, key).is_none_or(|value| value == key + 2));
            hot.remove(&key);
            assert_eq!(value(&hot, key), None, "it was stored twice");
        }
    }

    #[test]
    fn too_large_copy_removes_the_older_one() {
        let hot = HotEntries::new(1 << 20);
        hot.put(&7, &slot(1, 100));
        hot.put(&7, &slot(2, SIZE_MAX + 1));
        assert_eq!(value(&hot, 7), None);
    }

    #[test]
    fn writer_waits_for_a_slot_reader_does_not() {
        let hot = HotEntries::new(1 << 20);
        hot.put(&7, &slot(1, 100));
        let mut changing = hot.pair(hot.hash(&7)).unwrap().1.write();
        assert_eq!(value(&hot, 7), None, "it is not waited for");
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| hot.get_waiting(&7).is_some());
            while !reader.is_finished() {
                // Passes the lock to a waiting task, and to no other.
                RwLockWriteGuard::bump(&mut changing);
                std::thread::yield_now();
            }
            assert!(reader.join().unwrap());
        });
    }

    /// Two keys in one pair, and a candidate.
    fn three_of_a_pair(hot: &HotEntries<u64, u64>) -> [u64; 3] {
        let of_pair = |key: &u64| (hot.hash(key).0 & 0xffff) == (hot.hash(&0).0 & 0xffff);
        let mut keys = (0..).filter(of_pair);
        let keys = [(); 3].map(|()| keys.next().unwrap());
        keys[..2].iter().for_each(|key| hot.put(key, &slot(*key, 100)));
        keys
    }

    #[test]
    fn hotter_key_replaces_the_colder_one() {
        let hot = HotEntries::new(1 << 20);
        let [one, two, candidate] = three_of_a_pair(&hot);
        let vote = |key: u64| hot.vote(hot.hash(&key));
        assert_eq!([candidate, candidate].map(vote), [false; 2]);
        hot.record_hit(hot.hash(&one));
        assert_eq!([candidate, candidate, candidate].map(vote), [false, false, true]);
        hot.put(&candidate, &slot(candidate, 100));
        assert_eq!([one, two, candidate].map(|key| value(&hot, key)), [Some(one), None, Some(candidate)]);
    }

    #[test]
    fn scan_over_many_keys_takes_no_slot() {
        let hot = HotEntries::new(1 << 20);
        let [one, two, _] = three_of_a_pair(&hot);
        let earned = (100_000..200_000).filter(|key| hot.vote(hot.hash(key)));
        earned.for_each(|key| hot.put(&key, &slot(key, 100)));
        assert_eq!([one, two].map(|key| value(&hot, key)), [Some(one), Some(two)]);
    }

    #[test]
    fn empty_slot_takes_one_vote() {
        let hot: HotEntries<u64, u64> = HotEntries::new(1 << 20);
        assert!(hot.vote(hot.hash(&7)));
        let [one, _, candidate] = three_of_a_pair(&hot);
        assert!(!hot.vote(hot.hash(&candidate)));
        hot.remove(&one);
        assert!(hot.vote(hot.hash(&candidate)));
    }

    #[test]
    fn key_may_be_present_while_its_slots_change() {
        let hot = HotEntries::new(1 << 20);
        hot.put(&7, &slot(1, 100));
        let changing = hot.pair(hot.hash(&7)).unwrap().1.write();
        assert_eq!((value(&hot, 7), hot.may_hold(&7), hot.may_hold(&8)), (None, true, false));
        drop(changing);
    }

    #[test]
    fn small_memory_has_no_slots() {
        let hot = HotEntries::new(64 * 256);
        hot.put(&7, &slot(1, 100));
        assert_eq!(value(&hot, 7), None);
        assert!(hot.remove(&7).is_none());
    }

    #[test]
    fn key_without_slot_is_sampled_more_often() {
        let hot: HotEntries<u64, u64> = HotEntries::new(1 << 20);
        for key in 0..100 {
            let hash = hot.hash(&key);
            let moments = || (0..640).map(Moment::new);
            assert_eq!(moments().filter(|now| hash.is_vote(*now)).count(), 40);
            assert_eq!(moments().filter(|now| hash.is_sampled_hit(*now)).count(), 10);
        }
    }
}
