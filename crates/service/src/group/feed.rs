//! Invalidations for groups and members that change in the store.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use kith_cache::{Invalidation, remote::FeedError};
use kith_store::{FeedRecord, GroupId, GroupStore, StoreError, Stored, Stores};

use super::{
    GROUPS,
    member::{MEMBERS, ROSTERS, member_invalidations, roster_invalidations},
    search_invalidations,
};
use crate::write::feed_mapping::{FeedMapping, KeyMapping};

/// The feed mappings for groups and members.
#[must_use]
pub fn feed_mappings(stores: &Stores) -> Vec<Arc<dyn FeedMapping>> {
    vec![
        Arc::new(GroupMapping(Arc::clone(&stores.groups))),
        Arc::new(KeyMapping {
            namespace: MEMBERS,
            key: |record| match record {
                FeedRecord::Member(key) => Some(key.to_string()),
                _ => None,
            },
            dependents: |key| key.parse().map(member_invalidations).unwrap_or_default(),
        }),
        Arc::new(KeyMapping {
            namespace: ROSTERS,
            key: |record| match record {
                FeedRecord::Roster(group) => Some(group.to_string()),
                _ => None,
            },
            dependents: |key| key.parse().map(roster_invalidations).unwrap_or_default(),
        }),
    ]
}

/// The searches that find a group depend on its name and tags, so they are read from the store.
struct GroupMapping(Arc<dyn GroupStore>);

#[async_trait]
impl FeedMapping for GroupMapping {
    fn namespace(&self) -> &'static str {
        GROUPS
    }

    fn key(&self, record: &FeedRecord) -> Option<String> {
        match record {
            FeedRecord::Group(id) => Some(id.to_string()),
            _ => None,
        }
    }

    async fn dependents(&self, key: &str) -> Result<Vec<Invalidation>, FeedError> {
        let Ok(id) = key.parse::<GroupId>() else { return Ok(Vec::new()) };
        match self.0.group(id).await {
            Ok(Stored::Live(group)) => Ok(search_invalidations(&group)),
            // A group that cannot be read is not listed.
            Ok(_) | Err(StoreError::Corrupt { .. }) => Ok(Vec::new()),
            Err(_) => Err(FeedError::Unavailable),
        }
    }
}

impl fmt::Debug for GroupMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupMapping").finish_non_exhaustive()
    }
}
