//! What writes of groups invalidate for searches.

use std::{future::Future, sync::Arc};

use kith_store::{Group, GroupId, GroupPatch, NewGroup, StoreError, Visibility};

use super::{Groups, search::Bucket};
use crate::write::{invalidation_scope::write_with_invalidations, mutations::Committed};

/// The buckets of searches that a write may change: those of the words that the group has before and after.
///
/// Those of after must be there, and are: a change of name or tags has them itself, and a change of visibility
/// is bound to the version of `before`. Those of before may lack, where no copy is at hand: what is listed no
/// more is not shown, since searches compare the records.
pub(super) fn buckets(patch: &GroupPatch, before: Option<&Group>) -> Vec<Bucket> {
    let had = before.into_iter().flat_map(|group| group.tags.iter().chain([&group.name]));
    Bucket::of_words(patch.tags.iter().flatten().chain(&patch.name).chain(had))
}

/// The buckets of searches that find a group once it is created.
pub(super) fn buckets_of_new(group: &NewGroup) -> Vec<Bucket> {
    let public = group.visibility == Visibility::Public;
    Bucket::of_words(group.tags.iter().chain([&group.name]).filter(|_| public))
}

impl Groups {
    /// Runs a write with the pages of these buckets given up around it.
    pub(super) async fn listed<T: Send + Sync>(
        &self,
        buckets: Vec<Bucket>,
        write: impl Future<Output = Result<Committed<T>, StoreError>> + Send,
    ) -> Result<Committed<T>, StoreError> {
        if buckets.is_empty() {
            return write.await;
        }
        write_with_invalidations(self.searches.begin_write(&buckets).await, write).await
    }

    /// The record in memory, if there is one.
    pub(super) fn known(&self, id: GroupId) -> Option<Arc<Group>> {
        self.cache.peek(&id).map(|entry| entry.value)
    }
}

#[cfg(test)]
mod tests {
    use kith_store::{GroupWords, Text};

    use super::*;

    #[test]
    fn a_change_of_name_tells_of_the_new_name_also_where_the_group_is_not_known() {
        let name = GroupWords::name("Go").unwrap();
        let told = buckets(&GroupPatch { name: Some(name.clone()), ..GroupPatch::default() }, None);
        assert_eq!(told, Bucket::of_words([&name]));
        let tags = vec![Text::from("chess"), Text::from("go")];
        let told = buckets(&GroupPatch { tags: Some(tags.clone()), ..GroupPatch::default() }, None);
        assert_eq!(told, Bucket::of_words(&tags));
    }
}
