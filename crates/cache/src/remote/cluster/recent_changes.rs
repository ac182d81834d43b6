//! Deduplication for the change feed of the store: the versions that the log has already published. Memory is
//! bounded, and a forgotten version is only published a second time.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use crate::{Version, remote::shared::PublishedChange};

/// Changes that one generation remembers; of two generations the older is dropped when the younger is full.
const REMEMBERED: usize = 50_000;

/// Changes that this node has received recently, so that the reader of the store's change feed does not publish them
/// again. Remembers only while a reader requests it.
#[derive(Debug, Default)]
pub struct RecentChanges {
    /// How many readers ask for it.
    remembers: AtomicUsize,
    heard: Mutex<PublishedVersions>,
}

#[derive(Debug, Default)]
struct PublishedVersions {
    epoch: u64,
    young: HashMap<String, Version>,
    old: HashMap<String, Version>,
}

impl RecentChanges {
    /// Adds or removes a reader that needs changes to be remembered. The first one begins with an empty memory.
    pub(crate) fn remember(&self, remembers: bool) {
        let mut heard = self.heard.lock();
        let before = self.remembers.load(Ordering::Acquire);
        let after = if remembers { before + 1 } else { before.saturating_sub(1) };
        self.remembers.store(after, Ordering::Release);
        if before == 0 || after == 0 {
            *heard = PublishedVersions::default();
        }
    }

    /// A change was published in the log of this epoch. In another epoch than before, earlier entries no longer count.
    /// A change without a version makes the record unknown: its versions may begin again.
    pub(crate) fn heard(&self, epoch: u64, told: &PublishedChange<'_>) {
        if self.remembers.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut heard = self.heard.lock();
        let Some(version) = told.version else { return heard.forget(&name(told.namespace, told.key)) };
        if heard.epoch != epoch {
            *heard = PublishedVersions { epoch, ..PublishedVersions::default() };
        }
        if heard.young.len() >= REMEMBERED {
            heard.old = std::mem::take(&mut heard.young);
        }
        heard.young.insert(name(told.namespace, told.key), version);
    }

    /// Forgets the broadcast version of a record.
    pub(crate) fn forget(&self, namespace: &str, key: &str) {
        self.heard.lock().forget(&name(namespace, key));
    }

    /// Whether a change of this record to at least this version was published in the log of this epoch.
    pub(crate) fn knows(&self, epoch: u64, namespace: &str, key: &str, version: Version) -> bool {
        let (heard, name) = (self.heard.lock(), name(namespace, key));
        let known = heard.young.get(&name).or_else(|| heard.old.get(&name));
        heard.epoch == epoch && known.is_some_and(|known| *known >= version)
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

    fn told(key: &str, version: u64) -> PublishedChange<'_> {
        PublishedChange { namespace: "user", key, version: Some(Version::new(version)) }
    }

    #[test]
    fn published_version_is_known_in_its_epoch() {
        let recent = RecentChanges::default();
        recent.heard(1, &told("7", 5));
        assert!(!recent.knows(1, "user", "7", Version::new(5)), "nobody asked it to remember");
        recent.remember(true);
        recent.heard(1, &told("7", 5));
        assert!(recent.knows(1, "user", "7", Version::new(5)));
        assert!(!recent.knows(1, "user", "7", Version::new(6)));
        assert!(!recent.knows(1, "group", "7", Version::new(5)));
        assert!(!recent.knows(2, "user", "7", Version::new(5)), "a new log knows nothing of it");
        recent.heard(2, &told("8", 1));
        assert!(!recent.knows(1, "user", "7", Version::new(5)));
    }

    #[test]
    fn change_without_version_forgets_the_record() {
        let recent = RecentChanges::default();
        recent.remember(true);
        recent.heard(1, &told("7", 5));
        recent.heard(1, &told("8", 5));
        recent.heard(1, &PublishedChange { version: None, ..told("7", 0) });
        assert!(!recent.knows(1, "user", "7", Version::new(5)));
        recent.forget("user", "8");
        assert!(!recent.knows(1, "user", "8", Version::new(1)));
    }

    #[test]
    fn it_remembers_until_the_last_reader_leaves() {
        let recent = RecentChanges::default();
        recent.remember(true);
        recent.remember(true);
        recent.heard(1, &told("7", 5));
        recent.remember(false);
        assert!(recent.knows(1, "user", "7", Version::new(5)));
        recent.remember(false);
        assert!(!recent.knows(1, "user", "7", Version::new(5)));
    }

    #[test]
    fn it_remembers_within_a_bound() {
        let recent = RecentChanges::default();
        recent.remember(true);
        for key in 0..3 * REMEMBERED {
            recent.heard(1, &told(&key.to_string(), 1));
        }
        let heard = recent.heard.lock();
        assert!(heard.young.len() <= REMEMBERED && heard.old.len() <= REMEMBERED);
    }
}
