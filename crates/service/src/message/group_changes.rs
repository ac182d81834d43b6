//! Notes group changes to the group's members, and reactions to their conversation's users. If something
//! changes often, only some changes are noted, but always the last: a note says that it is to be read, and an
//! inbox has room for few entries.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;

/// A group is noted at most once in this time.
pub(super) const NOTED_EVERY: Duration = Duration::from_secs(10);
/// The most that were noted lately. Changes to others are not noted then.
const MOST: usize = 10_000;

/// What was noted lately, such as groups: whether each has changed since then.
#[derive(Debug)]
pub(super) struct NotedChanges<K>(Mutex<HashMap<K, bool>>);

impl<K> Default for NotedChanges<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> NotedChanges<K> {
    /// The key has changed. Returns whether the caller must note it now, and after a while, such as
    /// [`NOTED_EVERY`], ask [`Self::goes_on`].
    pub(super) fn changed(&self, key: K) -> bool {
        let mut noted = self.0.lock();
        if let Some(again) = noted.get_mut(&key) {
            *again = true;
            return false;
        }
        if noted.len() >= MOST {
            tracing::debug!("a change is not noted: too many groups or messages change");
            return false;
        }
        noted.insert(key, false);
        true
    }

    /// Whether the key has changed since it was noted, and must be noted again. If not, it is forgotten.
    pub(super) fn goes_on(&self, key: &K) -> bool {
        let mut noted = self.0.lock();
        let again = noted.get_mut(key).is_some_and(std::mem::take);
        if !again {
            noted.remove(key);
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use kith_store::GroupId;

    use super::*;

    fn group(id: usize) -> GroupId {
        GroupId::new(i64::try_from(id).unwrap()).unwrap()
    }

    #[test]
    fn last_change_of_a_group_is_noted() {
        let noted = NotedChanges::default();
        let changed = [9, 9, 9, 8].map(|id| noted.changed(group(id)));
        assert_eq!(changed, [true, false, false, true]);
        assert_eq!([9, 9, 8].map(|id| noted.goes_on(&group(id))), [true, false, false]);
        assert!(noted.changed(group(9)), "it is forgotten");
    }

    #[test]
    fn noted_groups_are_bounded() {
        let noted = NotedChanges::default();
        assert_eq!((1..=MOST + 5).filter(|id| noted.changed(group(*id))).count(), MOST);
        assert!(!noted.goes_on(&group(1)) && noted.changed(group(MOST + 1)));
    }
}
