//! How many group members are online by gateway, cached by each node.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{
    Change, Consistency, LoadError, LoadOptions, Loaded, Loader, Policy, TieredCache, Version, WriteGuard,
};
use kith_presence::{ActiveStore, Distribution, GatewayId, PresenceError};
use kith_store::GroupId;

use crate::{
    error::Error,
    write::{caches::CacheFactory, record_codec::RecordCodec},
};

/// The namespace for distributions of online members.
pub const ACTIVE: &str = "active";

/// Distributions through this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Active {
    cache: TieredCache<GroupId, Distribution>,
    pub(super) store: Arc<dyn ActiveStore>,
}

/// The invalidations around a change to some groups.
#[derive(Debug)]
pub(super) struct ActiveChange(WriteGuard<GroupId, Distribution>);

impl Active {
    pub(super) fn new(
        store: &Arc<dyn ActiveStore>,
        caches: &CacheFactory,
        policy: Policy<Distribution>,
    ) -> Self {
        let loader = Arc::new(DistributionLoader(Arc::clone(store)));
        Self { cache: caches.namespace(policy, loader, RecordCodec::DISTRIBUTION), store: Arc::clone(store) }
    }

    /// A group's distribution.
    ///
    /// # Errors
    /// UNAVAILABLE.
    pub(super) async fn of(
        &self,
        group: GroupId,
        consistency: &Consistency,
    ) -> Result<Arc<Distribution>, Error> {
        let entry = self.cache.get_with(&group, consistency).await;
        let entry = entry.map_err(|error| Error::cache("distribution", &error))?;
        Ok(entry.map(|entry| entry.value).unwrap_or_default())
    }

    /// Must be called before groups are changed.
    pub(super) async fn begin_change(&self, groups: &[GroupId]) -> ActiveChange {
        ActiveChange(self.cache.begin_write(groups).await)
    }
}

impl ActiveChange {
    /// Returns the results for the groups, in their order. Changed groups' copies are dropped here and on
    /// other nodes; if the change cannot be published now, their copies expire.
    ///
    /// # Errors
    /// UNAVAILABLE if a group could not be changed, or may have been.
    pub(super) async fn end(
        self,
        groups: &[GroupId],
        applied: &[Result<bool, PresenceError>],
    ) -> Result<(), Error> {
        if let Some(error) = applied.iter().find_map(|applied| applied.err()) {
            drop(self.0.unknown().await);
            return Err(Error::presence(error));
        }
        let changed = groups.iter().zip(applied).filter(|(_, applied)| **applied == Ok(true));
        let changes: Vec<_> =
            changed.map(|(group, _)| (*group, Change::Invalidate { version: None })).collect();
        if changes.is_empty() {
            self.0.aborted().await;
        } else {
            drop(self.0.committed(changes).await);
        }
        Ok(())
    }
}

/// Approximate size of a distribution, in bytes.
pub fn active_weight(distribution: &Distribution) -> usize {
    let gateways = distribution.gateways.iter();
    let gateways = gateways.map(|(id, _)| size_of::<(GatewayId, u32)>() + id.as_str().len());
    size_of::<Distribution>() + gateways.sum::<usize>()
}

#[derive(Debug)]
struct DistributionLoader(Arc<dyn ActiveStore>);

#[async_trait]
impl Loader<GroupId, Distribution> for DistributionLoader {
    async fn load(&self, group: &GroupId, options: LoadOptions) -> Result<Loaded<Distribution>, LoadError> {
        let found = self.load_many(&[*group], options).await?.pop();
        found.map(|(_, found)| found).ok_or_else(|| LoadError::new(PresenceError::Unexpected))
    }

    async fn load_many(
        &self,
        groups: &[GroupId],
        options: LoadOptions,
    ) -> Result<Vec<(GroupId, Loaded<Distribution>)>, LoadError> {
        let found: Vec<Distribution> = self
            .0
            .distributions(groups)
            .await
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(LoadError::new)?;
        Ok(groups
            .iter()
            .copied()
            .zip(found.into_iter().map(|one| loaded(one, options.min_version)))
            .collect())
    }
}

/// Redis answers, and its present state is valid, although it lost the previous state.
fn loaded(found: Distribution, known: Version) -> Loaded<Distribution> {
    let version = Version::new(found.version.unsigned_abs()).max(known);
    if found == Distribution::default() {
        return Loaded::Absent { version };
    }
    Loaded::Found { version, value: Arc::new(found) }
}
