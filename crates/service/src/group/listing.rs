//! Invalidates searches when groups are written.

use std::sync::Arc;

use kith_store::{Group, GroupId, GroupPatch, NewGroup, StoreError, Visibility};

use super::{Groups, search::SearchBucket};
use crate::write::mutations::{Committed, RecordWrite};

/// The search buckets that a write may change: those for the group's words before and after.
///
/// The new words' buckets must be included, and are: a change of name or tags has them itself, and a
/// visibility change is bound to the version of `before`. The old words' buckets may be missing, if there is
/// no copy: a group that is no longer listed is not shown, because searches compare the records.
pub(super) fn buckets(patch: &GroupPatch, before: Option<&Group>) -> Vec<SearchBucket> {
    let had = before.into_iter().flat_map(|group| group.tags.iter().chain([&group.name]));
    SearchBucket::of_words(patch.tags.iter().flatten().chain(&patch.name).chain(had))
}

/// The search buckets that find a new group.
pub(super) fn buckets_of_new(group: &NewGroup) -> Vec<SearchBucket> {
    let public = group.visibility == Visibility::Public;
    SearchBucket::of_words(group.tags.iter().chain([&group.name]).filter(|_| public))
}

impl Groups {
    /// Writes a group, which these search buckets may list before or after.
    pub(super) async fn write_listed<T: Send + 'static>(
        &self,
        buckets: Vec<SearchBucket>,
        job: RecordWrite<GroupId, Group, T>,
    ) -> Result<Committed<T>, StoreError> {
        let searches =
            if buckets.is_empty() { None } else { Some(self.searches.begin_write(&buckets).await) };
        self.mutations.write_with(&self.cache, job, searches).await
    }

    /// The record in memory, if there is one.
    pub(super) fn peek(&self, id: GroupId) -> Option<Arc<Group>> {
        self.cache.peek(&id).map(|entry| entry.value)
    }
}

#[cfg(test)]
mod tests {
    use kith_store::{GroupWords, Text};

    use super::*;

    #[test]
    fn new_name_is_notified_for_unknown_groups_too() {
        let name = GroupWords::name("Go").unwrap();
        let changed = buckets(&GroupPatch { name: Some(name.clone()), ..GroupPatch::default() }, None);
        assert_eq!(changed, SearchBucket::of_words([&name]));
        let tags = vec![Text::from("chess"), Text::from("go")];
        let changed = buckets(&GroupPatch { tags: Some(tags.clone()), ..GroupPatch::default() }, None);
        assert_eq!(changed, SearchBucket::of_words(&tags));
    }
}
