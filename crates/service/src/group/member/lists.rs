//! Pages of ids, read through the tiers: a group's members, and a user's groups.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{
    CacheError, Consistency, Invalidation, LoadError, LoadOptions, Page, PageAnswer, PageLoader, PagedList,
};
use kith_store::{GroupId, MemberKey, MemberStore, Role, UserId};
use serde::{Deserialize, Serialize};

use super::MemberListPolicies;
use super::{MEMBER_EPOCHS, MEMBERSHIP_EPOCHS};
use crate::{
    error::Error,
    rpc::versions::invalidation,
    write::{caches::CacheFactory, encoded_key::EncodedKey, record_codec::RecordCodec},
};

/// A page's key: at most `size` entries with the role `least` or a higher role, by rising id, above the id
/// `after`. 0: from the first entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct MemberPageKey {
    pub(super) least: Role,
    pub(super) after: i64,
    pub(super) size: usize,
}

/// Both kinds of lists, through this node's tiers.
#[derive(Clone, Debug)]
pub(super) struct MemberLists {
    pub(super) members: PagedList<GroupId, EncodedKey<MemberPageKey>, UserId>,
    pub(super) groups: PagedList<UserId, EncodedKey<MemberPageKey>, GroupId>,
}

impl MemberLists {
    pub(super) fn new(
        store: &Arc<dyn MemberStore>,
        caches: &CacheFactory,
        policies: MemberListPolicies,
    ) -> Self {
        Self {
            members: caches.list(policies.members, Arc::new(MemberPages(Arc::clone(store))), RecordCodec::ID),
            groups: caches.list(policies.groups, Arc::new(GroupPages(Arc::clone(store))), RecordCodec::ID),
        }
    }

    /// Candidates for a group's members.
    pub(super) async fn members_of(
        &self,
        group: GroupId,
        asked: MemberPageKey,
        consistency: &Consistency,
    ) -> Result<Arc<Page<UserId>>, Error> {
        ids(self.members.page(&group, &EncodedKey(asked), consistency).await)
    }

    /// Candidates for a user's groups.
    pub(super) async fn groups_of(
        &self,
        user: UserId,
        asked: MemberPageKey,
        consistency: &Consistency,
    ) -> Result<Arc<Page<GroupId>>, Error> {
        ids(self.groups.page(&user, &EncodedKey(asked), consistency).await)
    }
}

fn ids<T>(page: Result<PageAnswer<T>, CacheError>) -> Result<Arc<Page<T>>, Error> {
    Ok(page.map_err(|error| Error::cache("list", &error))?.entry.value)
}

/// The invalidations that another program's change of a member requires, besides the member's own.
pub fn member_invalidations(key: MemberKey) -> Vec<Invalidation> {
    let mut invalidations = roster_invalidations(key.group);
    invalidations.push(invalidation(MEMBERSHIP_EPOCHS, key.user.to_string()));
    invalidations
}

/// The invalidations that another program's change of a roster requires.
pub fn roster_invalidations(group: GroupId) -> Vec<Invalidation> {
    vec![invalidation(super::ROSTERS, group.to_string()), invalidation(MEMBER_EPOCHS, group.to_string())]
}

#[derive(Debug)]
struct MemberPages(Arc<dyn MemberStore>);

#[async_trait]
impl PageLoader<GroupId, EncodedKey<MemberPageKey>, UserId> for MemberPages {
    async fn page(
        &self,
        group: &GroupId,
        EncodedKey(asked): &EncodedKey<MemberPageKey>,
        _options: LoadOptions,
    ) -> Result<Page<UserId>, LoadError> {
        let after = UserId::new(asked.after).ok();
        // One more entry is read, to find out whether there is a next page.
        let found = self.0.member_list(*group, asked.least, after, asked.size.saturating_add(1)).await;
        let found = found.map_err(LoadError::new)?;
        let more = found.len() > asked.size;
        let items = found.iter().take(asked.size).map(|member| member.key.user).collect();
        Ok(Page { items, more })
    }
}

#[derive(Debug)]
struct GroupPages(Arc<dyn MemberStore>);

#[async_trait]
impl PageLoader<UserId, EncodedKey<MemberPageKey>, GroupId> for GroupPages {
    async fn page(
        &self,
        user: &UserId,
        EncodedKey(asked): &EncodedKey<MemberPageKey>,
        _options: LoadOptions,
    ) -> Result<Page<GroupId>, LoadError> {
        let after = GroupId::new(asked.after).ok();
        let mut items =
            self.0.memberships(*user, after, asked.size.saturating_add(1)).await.map_err(LoadError::new)?;
        let more = items.len() > asked.size;
        items.truncate(asked.size);
        Ok(Page { items, more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::encoded_key::assert_text;

    #[test]
    fn page_keys_keep_their_text() {
        assert_text(&MemberPageKey { least: Role::Member, after: 0, size: 50 }, "AAAy");
        assert_text(&MemberPageKey { least: Role::Owner, after: 5, size: 1 }, "AgoB");
    }

    #[test]
    fn member_invalidates_its_group_and_its_list() {
        let key = "9,7".parse::<MemberKey>().unwrap();
        let invalidations: Vec<_> =
            member_invalidations(key).into_iter().map(|one| (one.namespace, one.key)).collect();
        let expected = [("roster", "9"), ("member_list_epoch", "9"), ("membership_list_epoch", "7")];
        assert_eq!(invalidations, expected.map(|(namespace, key)| (namespace, key.to_owned())));
    }
}
