//! The cache namespaces for groups.

use std::time::Duration;

use kith_cache::{ListPolicies, Policy};
use kith_store::Group;

use super::{GROUPS, GroupPolicies, SEARCH_EPOCHS, SEARCH_PAGES};
use crate::write::cache_defaults::CacheDefaults;

/// How long a search page is served. It may contain groups that are no longer found; they are left out of the
/// answer.
const SEARCH_PAGE_TTL: Duration = Duration::from_secs(60);

/// Policies for copies of groups and search results.
#[must_use]
pub fn policies(defaults: &CacheDefaults) -> GroupPolicies {
    let ListPolicies { epochs, pages } = defaults.list(SEARCH_EPOCHS, SEARCH_PAGES);
    GroupPolicies {
        records: defaults.policy(GROUPS, Group::weight),
        searches: ListPolicies {
            epochs,
            pages: Policy {
                ttl: pages.ttl.min(SEARCH_PAGE_TTL),
                negative_ttl: pages.negative_ttl.min(SEARCH_PAGE_TTL),
                ..pages
            },
        },
    }
}
