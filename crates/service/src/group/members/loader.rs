//! Loads members and rosters.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{GroupId, Member, MemberKey, MemberStore, Roster, Stored, Version};

use crate::rpc::versions::{loaded, loaded_all};

/// Loads members from the store into the tiers.
#[derive(Debug)]
pub(super) struct MemberLoader(pub(super) Arc<dyn MemberStore>);

#[derive(Debug)]
pub(super) struct RosterLoader(pub(super) Arc<dyn MemberStore>);

#[async_trait]
impl Loader<MemberKey, Member> for MemberLoader {
    /// Every read of the store sees all changes that were acknowledged before it, so strong reads need
    /// nothing more.
    async fn load_many(
        &self,
        keys: &[MemberKey],
        _options: LoadOptions,
    ) -> Result<Vec<(MemberKey, Loaded<Member>)>, LoadError> {
        loaded_all(self.0.members(keys).await)
    }
}

#[async_trait]
impl Loader<GroupId, Roster> for RosterLoader {
    /// Like [`MemberLoader`], which needs no other statement for strong reads.
    async fn load_many(
        &self,
        groups: &[GroupId],
        _options: LoadOptions,
    ) -> Result<Vec<(GroupId, Loaded<Roster>)>, LoadError> {
        let found = self.0.rosters(groups).await.map_err(LoadError::new)?;
        // A group that never had a member has no roster.
        let stored = |roster: Roster| match roster.version {
            Version::NONE => Stored::Never,
            _ => Stored::Live(Arc::new(roster)),
        };
        Ok(groups.iter().copied().zip(found.into_iter().map(stored).map(loaded)).collect())
    }
}
