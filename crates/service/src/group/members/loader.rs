use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{GroupId, Member, MemberKey, MemberStore, Roster, Stored, Version};

use crate::rpc::versions::loaded;

/// Loads members from the store into the tiers.
#[derive(Debug)]
pub(super) struct MemberLoader(pub(super) Arc<dyn MemberStore>);

/// Loads rosters.
#[derive(Debug)]
pub(super) struct RosterLoader(pub(super) Arc<dyn MemberStore>);

#[async_trait]
impl Loader<MemberKey, Member> for MemberLoader {
    async fn load(&self, key: &MemberKey, options: LoadOptions) -> Result<Loaded<Member>, LoadError> {
        let found = self.load_many(std::slice::from_ref(key), options).await?;
        Ok(found.into_iter().next().map_or_else(|| member(Stored::Never), |(_, member)| member))
    }

    /// Every read of the store sees all changes that were acknowledged before it, so strong reads need nothing more.
    async fn load_many(
        &self,
        keys: &[MemberKey],
        _options: LoadOptions,
    ) -> Result<Vec<(MemberKey, Loaded<Member>)>, LoadError> {
        let found = self.0.members(keys).await.map_err(LoadError::new)?;
        Ok(found.into_iter().map(|(key, stored)| (key, member(stored))).collect())
    }
}

#[async_trait]
impl Loader<GroupId, Roster> for RosterLoader {
    async fn load(&self, group: &GroupId, options: LoadOptions) -> Result<Loaded<Roster>, LoadError> {
        let found = self.load_many(std::slice::from_ref(group), options).await?;
        Ok(found.into_iter().next().map_or_else(|| roster(Roster::default()), |(_, roster)| roster))
    }

    /// As for members.
    async fn load_many(
        &self,
        groups: &[GroupId],
        _options: LoadOptions,
    ) -> Result<Vec<(GroupId, Loaded<Roster>)>, LoadError> {
        let found = self.0.rosters(groups).await.map_err(LoadError::new)?;
        Ok(groups.iter().copied().zip(found.into_iter().map(roster)).collect())
    }
}

fn member(stored: Stored<Member>) -> Loaded<Member> {
    loaded(stored, |member| member.version)
}

/// A group that never had a member has no roster.
fn roster(roster: Roster) -> Loaded<Roster> {
    let stored = if roster.version == Version::NONE { Stored::Never } else { Stored::Live(Arc::new(roster)) };
    loaded(stored, |roster| roster.version)
}
