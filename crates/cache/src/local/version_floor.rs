//! The versions that readers have got, so that none gets an older one later.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use crate::{Key, Moment, Version};

/// Longer than a shared copy can be stale after a commit. If the writer died, it is stale until the change feed has
/// published the change.
const KEPT: Duration = Duration::from_secs(15);
/// Entries of each shard; the oldest are replaced.
const MOST: usize = 256;

/// Versions that readers of this node got. A record may no longer be in memory while the shared tier has an older copy: no
/// later reader gets that copy. The number of entries is limited: after an entry was replaced, a read may return an older
/// version, within the bound of all reads.
#[derive(Debug)]
pub(crate) struct VersionFloors<K> {
    known: HashMap<K, KnownVersion, ahash::RandomState>,
    /// In the order of insertion; repeated ones are in it more than once.
    order: VecDeque<(K, Moment)>,
}

#[derive(Clone, Copy, Debug)]
struct KnownVersion {
    version: Version,
    until: Moment,
}

impl<K: Key> VersionFloors<K> {
    pub(crate) fn new(hasher: ahash::RandomState) -> Self {
        Self { known: HashMap::with_hasher(hasher), order: VecDeque::new() }
    }

    /// Records that readers got this version. A later version is kept, with its own expiry.
    pub(crate) fn note(&mut self, key: &K, version: Version, now: Moment) {
        if version < self.version(key, now) {
            return;
        }
        while self.order.len() >= MOST || self.order.front().is_some_and(|(_, until)| *until <= now) {
            self.drop_first();
        }
        let until = now.after(KEPT);
        self.order.push_back((key.clone(), until));
        self.known.insert(key.clone(), KnownVersion { version, until });
    }

    /// Forgets the version: the state of the record is unknown.
    pub(crate) fn forget(&mut self, key: &K) {
        self.known.remove(key);
    }

    /// The lowest version that the record may have, as far as known. After a restore, the store may have a lower one:
    /// a load that finds it reads again, and returns the result.
    pub(crate) fn version(&self, key: &K, now: Moment) -> Version {
        if self.known.is_empty() {
            return Version::UNVERSIONED;
        }
        let known = self.known.get(key).filter(|known| now < known.until);
        known.map_or(Version::UNVERSIONED, |known| known.version)
    }

    /// Removes the oldest entry, unless its key was inserted again since.
    fn drop_first(&mut self) {
        if let Some((key, until)) = self.order.pop_front()
            && self.known.get(&key).is_some_and(|known| known.until == until)
        {
            self.known.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::new(1_000);

    fn recall() -> VersionFloors<u64> {
        VersionFloors::new(ahash::RandomState::new())
    }

    #[test]
    fn a_version_is_known_for_a_while() {
        let mut recall = recall();
        recall.note(&1, Version::new(7), NOW);
        recall.note(&1, Version::new(5), NOW.after(KEPT / 2));
        let version = |now| recall.version(&1, now).get();
        assert_eq!((version(NOW), version(NOW.after(KEPT / 2)), version(NOW.after(KEPT))), (7, 7, 0));
    }

    #[test]
    fn what_may_be_anything_is_forgotten() {
        let mut recall = recall();
        recall.note(&1, Version::new(7), NOW);
        recall.forget(&1);
        assert_eq!(recall.version(&1, NOW), Version::UNVERSIONED);
    }

    #[test]
    fn oldest_entry_is_dropped_at_limit() {
        let mut recall = recall();
        for key in 0..=MOST as u64 {
            recall.note(&key, Version::new(7), NOW.after(Duration::from_millis(key)));
        }
        let here = (0..=MOST as u64).filter(|key| recall.version(key, NOW).is_versioned());
        assert_eq!(here.collect::<Vec<_>>(), (1..=MOST as u64).collect::<Vec<_>>());
    }
}
