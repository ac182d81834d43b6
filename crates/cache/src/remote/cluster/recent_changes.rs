//! Deduplication for the store's change feed: remembers the versions that the log has already published. The
//! number of versions is bounded; a change whose version is forgotten is only published a second time.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use crate::{Version, remote::shared::PublishedChange};

/// Maximum changes in a generation. There are two: when the younger generation is full, the older is dropped.
const REMEMBERED: usize = 50_000;

/// Changes that this node has received recently, so that the reader of the store's change feed does not
/// publish them again. Changes are remembered only while there is a reader.
#[derive(Debug, Default)]
pub struct RecentChanges {
    /// Number of readers that need changes to be remembered.
    readers: AtomicUsize,
    published: Mutex<PublishedVersions>,
}

#[derive(Debug, Default)]
struct PublishedVersions {
    epoch: u64,
    young: HashMap<String, Version>,
    old: HashMap<String, Version>,
}

impl RecentChanges {
    /// Adds or removes a reader that needs changes to be remembered. The first one begins with an empty
    /// memory.
    pub(crate) fn remember(&self, is_added: bool) {
        let mut published = self.published.lock();
        let before = self.readers.load(Ordering::Acquire);
        let after = if is_added { before + 1 } else { before.saturating_sub(1) };
        self.readers.store(after, Ordering::Release);
        if before == 0 || after == 0 {
            *published = PublishedVersions::default();
        }
    }

    /// Remembers a change that was published in this epoch's log. Changes from an earlier epoch are
    /// forgotten. A change without a version forgets the record: its versions may begin again.
    pub(crate) fn record(&self, epoch: u64, change: &PublishedChange<'_>) {
        if self.readers.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut published = self.published.lock();
        let name = name(change.namespace, change.key);
        let Some(version) = change.version else { return published.forget(&name) };
        if published.epoch != epoch {
            *published = PublishedVersions { epoch, ..PublishedVersions::default() };
        }
        if published.young.len() >= REMEMBERED {
            published.old = std::mem::take(&mut published.young);
        }
        published.young.insert(name, version);
    }

    /// Forgets the broadcast version of a record.
    pub(crate) fn forget(&self, namespace: &str, key: &str) {
        self.published.lock().forget(&name(namespace, key));
    }

    /// Whether a change of this record to at least this version was published in this epoch's log.
    pub(crate) fn knows(&self, epoch: u64, namespace: &str, key: &str, version: Version) -> bool {
        let (published, name) = (self.published.lock(), name(namespace, key));
        let known = published.young.get(&name).or_else(|| published.old.get(&name));
        published.epoch == epoch && known.is_some_and(|known| *known >= version)
    }
}

impl PublishedVersions {
    fn forget(&mut self, name: &str) {
        self.young.remove(name);
        self.old.remove(name);
    }
}

fn name(namespace: &str, key: &str) -> String {
    format!("{namespace}:{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, version: u64) -> PublishedChange<'_> {
        PublishedChange { namespace: "user", key, version: Some(Version::new(version)) }
    }

    #[test]
    fn published_version_is_known_in_its_epoch() {
        let recent = RecentChanges::default();
        recent.record(1, &change("7", 5));
        assert!(!recent.knows(1, "user", "7", Version::new(5)), "no reader has asked to remember changes");
        recent.remember(true);
        recent.record(1, &change("7", 5));
        assert!(recent.knows(1, "user", "7", Version::new(5)));
        assert!(!recent.knows(1, "user", "7", Version::new(6)));
        assert!(!recent.knows(1, "group", "7", Version::new(5)));
        assert!(!recent.knows(2, "user", "7", Version::new(5)), "it was not published in the new log");
        recent.record(2, &change("8", 1));
        assert!(!recent.knows(1, "user", "7", Version::new(5)));
    }

    #[test]
    fn change_without_version_forgets_the_record() {
        let recent = RecentChanges::default();
        recent.remember(true);
        recent.record(1, &change("7", 5));
        recent.record(1, &change("8", 5));
        recent.record(1, &PublishedChange { version: None, ..change("7", 0) });
        assert!(!recent.knows(1, "user", "7", Version::new(5)));
        recent.forget("user", "8");
        assert!(!recent.knows(1, "user", "8", Version::new(1)));
    }

    #[test]
    fn changes_are_kept_until_last_reader_leaves() {
        let recent = RecentChanges::default();
        recent.remember(true);
        recent.remember(true);
        recent.record(1, &change("7", 5));
        recent.remember(false);
        assert!(recent.knows(1, "user", "7", Version::new(5)));
        recent.remember(false);
        assert!(!recent.knows(1, "user", "7", Version::new(5)));
    }

    #[test]
    fn remembered_changes_are_bounded() {
        let recent = RecentChanges::default();
        recent.remember(true);
        for key in 0..3 * REMEMBERED {
            recent.record(1, &change(&key.to_string(), 1));
        }
        let published = recent.published.lock();
        assert!(published.young.len() <= REMEMBERED && published.old.len() <= REMEMBERED);
    }
}
