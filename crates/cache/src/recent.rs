//! A few of the copies that memory holds, where a read finds them at once.
//!
//! A hit in moka costs some 150 ns: a bucket of its hash table, a note for the popularity sketch, now and then the
//! bookkeeping of a hundred such notes. Here it costs one of two places that the hash of the key names. Only whoever holds
//! the shard lock of a key changes what stands here of it, so that a copy goes from both with the same invalidation; one
//! that moka has evicted may be served from here until another takes its place. One read in sixteen asks moka all the same:
//! then its sketch hears of the key, and a key that came to be read often gets its place.
//!
//! Two places and not one: of as many keys as a third of the places, one in seven would stand in the way of another.

use std::sync::OnceLock;

use parking_lot::{RwLock, RwLockReadGuard};

use crate::{Moment, memory::Slot};

/// Memory for each place: what stands here costs some 4 % of what moka may hold.
const BYTES_A_PLACE: u64 = 2048;
const PLACES_MAX: u64 = 1 << 15;
/// So many places are made at a time.
const CHUNK: usize = 256;
/// A larger copy has no place: what moka has evicted and stands here takes a quarter of the bound at most.
const SIZE_MAX: u32 = 512;
/// One read in so many asks moka.
const SAMPLE: u64 = 16;

type Place<K, V> = RwLock<Option<(K, Slot<V>)>>;
type Look<'a, K, V> = RwLockReadGuard<'a, Option<(K, Slot<V>)>>;
/// Made when one of them is first needed.
type Chunk<K, V> = OnceLock<Box<[Place<K, V>]>>;

/// Each key has two places beside each other, which it shares with others; it stands in one of them at most.
pub(crate) struct Recent<K, V> {
    chunks: Box<[Chunk<K, V>]>,
    hasher: ahash::RandomState,
}

/// Which place a key has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot(u64);

impl Spot {
    /// Whether a read at this moment asks moka first.
    #[inline]
    pub(crate) const fn is_sampled(self, now: Moment) -> bool {
        (self.0 >> 48).wrapping_add(now.get()).is_multiple_of(SAMPLE)
    }
}

impl<K: std::hash::Hash + Eq + Clone, V> Recent<K, V> {
    /// For a memory of so many bytes; a small one has none of it.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let places = (memory_bytes / BYTES_A_PLACE).min(PLACES_MAX);
        let chunks = usize::try_from(places).unwrap_or(0) / CHUNK;
        let chunks = if chunks == 0 { 0 } else { 1 << chunks.ilog2() };
        Self { chunks: (0..chunks).map(|_| OnceLock::new()).collect(), hasher: ahash::RandomState::new() }
    }

    #[inline]
    pub(crate) fn spot(&self, key: &K) -> Spot {
        Spot(self.hasher.hash_one(key))
    }

    /// The copy of the key, if it stands here and nobody is changing its place.
    #[inline]
    pub(crate) fn get(&self, spot: Spot, key: &K) -> Option<Slot<V>> {
        self.find(spot, key, RwLock::try_read)
    }

    /// The copy of the key, if it stands here: whoever changes its place is waited for.
    pub(crate) fn standing(&self, key: &K) -> Option<Slot<V>> {
        self.find(self.spot(key), key, |place| Some(place.read()))
    }

    /// Whether such a copy could have a place.
    pub(crate) fn takes(&self, slot: &Slot<V>) -> bool {
        slot.size <= SIZE_MAX && !self.chunks.is_empty()
    }

    /// Puts a copy in its place. Shard lock held.
    pub(crate) fn put(&self, key: &K, slot: &Slot<V>) {
        let spot = self.spot(key);
        let Some(chunk) = self.chunk(spot) else { return };
        if !self.takes(slot) {
            drop(self.take(key));
            return;
        }
        let places = chunk.get_or_init(|| (0..CHUNK).map(|_| RwLock::new(None)).collect());
        // Both are held, in one order for all: else two keys could find the same place empty, or a key stand in both.
        let [first, second] = both(spot);
        let (mut low, mut high) = (places[first.min(second)].write(), places[first.max(second)].write());
        let (own, other) = if first < second { (&mut low, &mut high) } else { (&mut high, &mut low) };
        let is_here = |place: &Option<(K, Slot<V>)>| place.as_ref().is_some_and(|(here, _)| here == key);
        let is_other = is_here(other) || (own.is_some() && !is_here(own) && other.is_none());
        let place = if is_other { other } else { own };
        let before = place.replace((key.clone(), slot.clone()));
        drop((low, high));
        drop(before);
    }

    /// Takes out the copy of the key. Shard lock held.
    pub(crate) fn take(&self, key: &K) -> Option<Slot<V>> {
        let spot = self.spot(key);
        let chunk = self.chunk(spot)?.get()?;
        let taken = |place: usize| chunk[place].write().take_if(|(here, _)| here == key);
        let [first, second] = both(spot);
        taken(first).or_else(|| taken(second)).map(|(_, slot)| slot)
    }

    #[inline]
    fn find<'a>(
        &'a self,
        spot: Spot,
        key: &K,
        look: impl Fn(&'a Place<K, V>) -> Option<Look<'a, K, V>>,
    ) -> Option<Slot<V>> {
        let chunk = self.chunk(spot)?.get()?;
        let copy = |place: &'a Place<K, V>| {
            look(place)?.as_ref().filter(|(here, _)| here == key).map(|(_, slot)| slot.clone())
        };
        let [first, second] = both(spot);
        copy(&chunk[first]).or_else(|| copy(&chunk[second]))
    }

    #[inline]
    fn chunk(&self, spot: Spot) -> Option<&Chunk<K, V>> {
        let mask = u64::try_from(self.chunks.len().checked_sub(1)?).unwrap_or(0);
        self.chunks.get(usize::try_from((spot.0 >> 8) & mask).unwrap_or(0))
    }
}

/// Which places of its chunk.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lowest byte is meant")]
const fn both(spot: Spot) -> [usize; 2] {
    let first = spot.0 as u8 as usize;
    [first, first ^ 1]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Version;

    fn slot(value: u64, size: u32) -> Slot<u64> {
        let (value, version) = (Some(Arc::new(value)), Version::UNVERSIONED);
        Slot { value, version, read_at: Moment::new(0), ttl: 0, refresh: 0, size, flush: 0 }
    }

    fn value(recent: &Recent<u64, u64>, key: u64) -> Option<u64> {
        recent.get(recent.spot(&key), &key).and_then(|slot| slot.value).map(|value| *value)
    }

    #[test]
    fn a_copy_stands_until_it_is_taken_or_another_key_takes_its_place() {
        let recent = Recent::new(1 << 20);
        (0..10_000).for_each(|key| recent.put(&key, &slot(key, 100)));
        let standing: Vec<u64> = (0..10_000).filter(|key| value(&recent, *key).is_some()).collect();
        assert!((100..=512).contains(&standing.len()), "{}", standing.len());
        for key in standing {
            assert_eq!(value(&recent, key), Some(key));
            assert!(recent.take(&key).is_some() && recent.take(&key).is_none());
            assert_eq!(value(&recent, key), None);
        }
    }

    #[test]
    fn few_of_as_many_keys_as_a_third_of_the_places_stand_in_each_others_way() {
        let recent = Recent::new(1 << 20);
        (0..170).for_each(|key| recent.put(&key, &slot(key, 100)));
        let standing = (0..170).filter(|key| value(&recent, *key).is_some()).count();
        assert!(standing >= 150, "{standing} of 170: with one place each some 145 would");
    }

    #[test]
    fn a_newer_copy_takes_the_place_of_the_older_one_whatever_came_between() {
        let recent = Recent::new(1 << 20);
        for round in 0..3 {
            (0..2_000).for_each(|key| recent.put(&key, &slot(key + round, 100)));
        }
        for key in 0..2_000 {
            assert!(value(&recent, key).is_none_or(|value| value == key + 2));
            recent.take(&key);
            assert_eq!(value(&recent, key), None, "it stood twice");
        }
    }

    #[test]
    fn a_copy_that_is_too_large_leaves_none_behind_that_is_older() {
        let recent = Recent::new(1 << 20);
        recent.put(&7, &slot(1, 100));
        recent.put(&7, &slot(2, SIZE_MAX + 1));
        assert_eq!(value(&recent, 7), None);
    }

    #[test]
    fn whoever_decides_about_a_copy_waits_for_its_place_and_whoever_reads_does_not() {
        let recent = Recent::new(1 << 20);
        recent.put(&7, &slot(1, 100));
        let spot = recent.spot(&7);
        let places = recent.chunk(spot).unwrap().get().unwrap();
        let changing = both(spot).map(|place| places[place].write());
        assert_eq!(value(&recent, 7), None, "it is not waited for");
        std::thread::scope(|scope| {
            let standing = scope.spawn(|| recent.standing(&7).is_some());
            drop(changing);
            assert!(standing.join().unwrap());
        });
    }

    #[test]
    fn a_small_memory_has_none_of_it() {
        let recent = Recent::new(64 * 256);
        recent.put(&7, &slot(1, 100));
        assert_eq!(value(&recent, 7), None);
        assert!(recent.take(&7).is_none());
    }

    #[test]
    fn one_moment_in_sixteen_a_read_of_a_key_asks_moka() {
        let recent: Recent<u64, u64> = Recent::new(1 << 20);
        for key in 0..100 {
            let spot = recent.spot(&key);
            let asked = (0..160).filter(|now| spot.is_sampled(Moment::new(*now))).count();
            assert_eq!(asked, 10);
        }
    }
}
