//! Notes group changes to the group's members. If a group changes often, only some changes are noted, but
//! always the last: a note says that the group is to be read, and an inbox has room for few entries.

use std::{collections::HashMap, time::Duration};

use kith_store::GroupId;
use parking_lot::Mutex;

/// A group is noted at most once in this time.
pub(super) const NOTED_EVERY: Duration = Duration::from_secs(10);
/// The most groups that were noted lately. Changes to others are not noted then.
const MOST: usize = 10_000;

/// The groups that were noted lately: whether they have changed since then.
#[derive(Debug, Default)]
pub(super) struct NotedGroups(Mutex<HashMap<GroupId, bool>>);

impl NotedGroups {
    /// A group has changed. Returns whether the caller must note it now, and after [`NOTED_EVERY`] ask
    /// [`Self::goes_on`].
    pub(super) fn changed(&self, group: GroupId) -> bool {
        let mut groups = self.0.lock();
        if let Some(again) = groups.get_mut(&group) {
            *again = true;
            return false;
        }
        if groups.len() >= MOST {
            tracing::debug!("a change of a group is not noted: too many groups change");
            return false;
        }
        groups.insert(group, false);
        true
    }

    /// Whether the group has changed since it was noted, and must be noted again. If not, it is forgotten.
    pub(super) fn goes_on(&self, group: GroupId) -> bool {
        let mut groups = self.0.lock();
        let again = groups.get_mut(&group).is_some_and(std::mem::take);
        if !again {
            groups.remove(&group);
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: usize) -> GroupId {
        GroupId::new(i64::try_from(id).unwrap()).unwrap()
    }

    #[test]
    fn last_change_of_a_group_is_noted() {
        let noted = NotedGroups::default();
        let changed = [9, 9, 9, 8].map(|id| noted.changed(group(id)));
        assert_eq!(changed, [true, false, false, true]);
        assert_eq!([9, 9, 8].map(|id| noted.goes_on(group(id))), [true, false, false]);
        assert!(noted.changed(group(9)), "it is forgotten");
    }

    #[test]
    fn noted_groups_are_bounded() {
        let noted = NotedGroups::default();
        assert_eq!((1..=MOST + 5).filter(|id| noted.changed(group(*id))).count(), MOST);
        assert!(!noted.goes_on(group(1)) && noted.changed(group(MOST + 1)));
    }
}
