//! The versions that a feed has delivered.

use std::collections::HashMap;

use kith_store::{FeedRecord, Version};

/// The most records in a generation. There are two: when the younger generation is full, the older is
/// dropped.
const GENERATION_MAX: usize = 131_072;

/// Recently delivered versions, so that none is delivered after a higher version.
#[derive(Debug, Default)]
pub(super) struct DeliveredVersions {
    young: HashMap<FeedRecord, Version>,
    old: HashMap<FeedRecord, Version>,
}

impl DeliveredVersions {
    /// Adds a version. Returns false if it or a higher version was delivered already.
    pub(super) fn add(&mut self, record: FeedRecord, version: Version) -> bool {
        let known = self.young.get(&record).or_else(|| self.old.get(&record));
        if known.is_some_and(|known| *known >= version) {
            return false;
        }
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(record, version);
        true
    }
}

#[cfg(test)]
mod tests {
    use kith_store::GroupId;

    use super::*;

    fn roster(group: usize) -> FeedRecord {
        FeedRecord::Roster(GroupId::new(i64::try_from(group).unwrap()).unwrap())
    }

    #[test]
    fn version_is_delivered_once_and_rises() {
        let (mut delivered, version) = (DeliveredVersions::default(), |number| Version::new(number).unwrap());
        let added = [3, 3, 2, 4].map(|number| delivered.add(roster(1), version(number)));
        assert_eq!(added, [true, false, false, true]);
        assert!(delivered.add(roster(2), version(1)));
    }

    #[test]
    fn full_memory_keeps_the_recent_half() {
        let (mut delivered, version) = (DeliveredVersions::default(), Version::FIRST);
        for group in 1..=3 * GENERATION_MAX {
            assert!(delivered.add(roster(group), version));
            assert!(delivered.young.len() <= GENERATION_MAX && delivered.old.len() <= GENERATION_MAX);
        }
        for recent in 2 * GENERATION_MAX..=3 * GENERATION_MAX {
            assert!(!delivered.add(roster(recent), version), "it was delivered a moment ago");
        }
    }
}
