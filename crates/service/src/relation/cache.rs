//! The cache namespaces for relations.

use std::time::Duration;

use kith_cache::{ListPolicies, Policy};
use kith_store::{Block, Follow};

use super::{BLOCK_EPOCHS, BLOCK_PAGES, BLOCKS, FOLLOW_EPOCHS, FOLLOW_PAGES, FOLLOWS, RelationPolicies};
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// CQL corrects a list's count up to two seconds after its last change, and publishes nothing. Counts are
/// pages of their list: with this age they are right within 11 s of the change.
const FOLLOW_PAGE_AGE_MAX: Duration = Duration::from_secs(9);

/// The policies for copies of follows, blocks and their lists.
#[must_use]
pub fn policies(defaults: &CacheDefaults) -> RelationPolicies {
    let ListPolicies { epochs, pages } = defaults.list(FOLLOW_EPOCHS, FOLLOW_PAGES);
    let blocks = often_absent(defaults.policy(BLOCKS, Block::weight));
    RelationPolicies {
        follows: often_absent(defaults.policy(FOLLOWS, Follow::weight)),
        blocks: Policy { strict: true, ..blocks },
        follow_lists: ListPolicies { epochs, pages: Policy { age_max: Some(FOLLOW_PAGE_AGE_MAX), ..pages } },
        block_lists: defaults.list(BLOCK_EPOCHS, BLOCK_PAGES),
    }
}
