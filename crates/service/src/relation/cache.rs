//! The namespaces of relations in the caches.

use std::time::Duration;

use kith_cache::{ListEpoch, ListPolicies, Policy};
use kith_store::{Block, Follow};

use super::{
    BLOCK_EPOCHS, BLOCK_PAGES, BLOCKS, FOLLOW_EPOCHS, FOLLOW_PAGES, FOLLOWS, RelationPolicies,
    block_page_weight, follow_page_weight,
};
use crate::write::cache_defaults::{CacheDefaults, halved, often_absent};

/// Records of pairs are small: with 256 MiB, some 200,000 follows, or 280,000 absences.
const FOLLOW_SHARES: u64 = 8;
/// Read for every message.
const BLOCK_SHARES: u64 = 8;
/// Pages of follows: some 3,000 of 100.
const FOLLOW_PAGE_SHARES: u64 = 4;
const BLOCK_PAGE_SHARES: u64 = 1;
/// Of lists of follows, and of blocks: half a share each.
const EPOCH_SHARES: u64 = 1;
/// Of the memory.
pub const SHARES: u64 = FOLLOW_SHARES + BLOCK_SHARES + FOLLOW_PAGE_SHARES + BLOCK_PAGE_SHARES + EPOCH_SHARES;

/// CQL corrects the count of a list up to two seconds after its last change, and publishes nothing. Counts are pages of their
/// list: with this age they are right within 11 s of the change.
const FOLLOW_PAGE_AGE_MAX: Duration = Duration::from_secs(9);

/// How copies of follows and blocks, and of their lists, behave.
#[must_use]
pub fn policies(defaults: &CacheDefaults) -> RelationPolicies {
    let pages = defaults.policy(FOLLOW_PAGES, FOLLOW_PAGE_SHARES, follow_page_weight);
    let blocks = often_absent(defaults.policy(BLOCKS, BLOCK_SHARES, Block::weight));
    RelationPolicies {
        follows: often_absent(defaults.policy(FOLLOWS, FOLLOW_SHARES, Follow::weight)),
        blocks: Policy { strict: true, ..blocks },
        follow_lists: ListPolicies {
            epochs: halved(defaults.policy(FOLLOW_EPOCHS, EPOCH_SHARES, ListEpoch::weight)),
            pages: Policy { age_max: Some(FOLLOW_PAGE_AGE_MAX), ..pages },
        },
        block_lists: ListPolicies {
            epochs: halved(defaults.policy(BLOCK_EPOCHS, EPOCH_SHARES, ListEpoch::weight)),
            pages: defaults.policy(BLOCK_PAGES, BLOCK_PAGE_SHARES, block_page_weight),
        },
    }
}
