//! The versions that readers have got, so that none gets an older one later.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use crate::{Key, Moment, Version};

/// This is longer than a shared copy can be stale after a commit. If the writer died, it is stale until the
/// change feed has published the change.
const KNOWN_FOR: Duration = Duration::from_secs(15);
/// Entries of each shard; the oldest are replaced.
const ENTRIES_MAX: usize = 256;

/// Versions that readers got on this node. A record may no longer be in memory while the shared tier has an
/// older copy: no later reader gets that copy. The number of entries is limited: after an entry was replaced,
/// a read may return an older version, within the bound for all reads.
#[derive(Debug)]
pub(crate) struct VersionFloors<K> {
    known: HashMap<K, KnownVersion, ahash::RandomState>,
    /// The keys in the order of insertion; a repeated key is in it more than once.
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
    pub(crate) fn raise(&mut self, key: &K, version: Version, now: Moment) {
        if version < self.floor(key, now) {
            return;
        }
        while self.order.len() >= ENTRIES_MAX || self.order.front().is_some_and(|(_, until)| *until <= now) {
            self.drop_first();
        }
        let until = now.after(KNOWN_FOR);
        self.order.push_back((key.clone(), until));
        self.known.insert(key.clone(), KnownVersion { version, until });
    }

    /// Forgets the version: the state of the record is unknown.
    pub(crate) fn forget(&mut self, key: &K) {
        self.known.remove(key);
    }

    /// The lowest version that the record may have, as far as known. After a restore, the store may have a
    /// lower version: a load that finds it reads again, and returns the result.
    pub(crate) fn floor(&self, key: &K, now: Moment) -> Version {
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

    fn floors() -> VersionFloors<u64> {
        VersionFloors::new(ahash::RandomState::new())
    }

    #[test]
    fn a_version_is_known_for_a_while() {
        let mut floors = floors();
        floors.raise(&1, Version::new(7), NOW);
        floors.raise(&1, Version::new(5), NOW.after(KNOWN_FOR / 2));
        let floor = |now| floors.floor(&1, now).get();
        assert_eq!((floor(NOW), floor(NOW.after(KNOWN_FOR / 2)), floor(NOW.after(KNOWN_FOR))), (7, 7, 0));
    }

    #[test]
    fn record_of_unknown_state_is_forgotten() {
        let mut floors = floors();
        floors.raise(&1, Version::new(7), NOW);
        floors.forget(&1);
        assert_eq!(floors.floor(&1, NOW), Version::UNVERSIONED);
    }

    #[test]
    fn oldest_entry_is_dropped_at_limit() {
        let mut floors = floors();
        for key in 0..=ENTRIES_MAX as u64 {
            floors.raise(&key, Version::new(7), NOW.after(Duration::from_millis(key)));
        }
        let here = (0..=ENTRIES_MAX as u64).filter(|key| floors.floor(key, NOW).is_versioned());
        assert_eq!(here.collect::<Vec<_>>(), (1..=ENTRIES_MAX as u64).collect::<Vec<_>>());
    }
}
