//! How each namespace behaves in memory.

use std::time::Duration;

use kith_cache::{ListEpoch, ListPolicies, Policy};
use kith_presence::Distribution;
use kith_service::{
    group::{
        GROUPS, GroupPolicies, SEARCH_EPOCHS, SEARCH_PAGES,
        members::{
            MEMBER_EPOCHS, MEMBER_PAGES, MEMBERS, MEMBERSHIP_EPOCHS, MEMBERSHIP_PAGES, MemberListPolicies,
            MemberPolicies, ROSTERS, member_page_weight, membership_page_weight,
        },
        page_weight,
    },
    presence::{ACTIVE, active_weight},
    relation::{
        BLOCK_EPOCHS, BLOCK_PAGES, BLOCKS, FOLLOW_EPOCHS, FOLLOW_PAGES, FOLLOWS, RelationPolicies,
        block_page_weight, follow_page_weight,
    },
    user::USERS,
};
use kith_store::{Block, Follow, Group, Member, Roster, User};

use super::memory_budget::{
    ACTIVE_SHARES, BLOCK_PAGE_SHARES, BLOCK_SHARES, FOLLOW_PAGE_SHARES, FOLLOW_SHARES, GROUP_SHARES,
    LIST_EPOCH_SHARES, MEMBER_EPOCH_SHARES, MEMBER_PAGE_SHARES, MEMBER_SHARES, ROSTER_SHARES,
    SEARCH_EPOCH_SHARES, SEARCH_PAGE_SHARES, SHARES, USER_SHARES,
};
use crate::config::{Backend, CacheConfig, Config};

/// How long a page of a search is served. It may hold groups that are found no more, which then only make it short.
const SEARCH_PAGE_TTL: Duration = Duration::from_secs(60);
/// CQL corrects the count of a list up to two seconds after its last change, and publishes nothing. Counts are pages of their
/// list: with this age they are right within 11 s of the change.
const FOLLOW_PAGE_AGE_MAX: Duration = Duration::from_secs(9);
/// The active members of a group are published when they change, but not where presence is lost.
const ACTIVE_AGE_MAX: Duration = Duration::from_secs(10);

/// Of users.
pub(super) fn user_policy(config: &Config) -> Policy<User> {
    policy(USERS, &cache_config(config), USER_SHARES, User::weight)
}

pub(super) fn group_policies(config: &Config) -> GroupPolicies {
    let cache = &cache_config(config);
    GroupPolicies {
        records: policy(GROUPS, cache, GROUP_SHARES, Group::weight),
        searches: ListPolicies {
            epochs: policy(SEARCH_EPOCHS, cache, SEARCH_EPOCH_SHARES, ListEpoch::weight),
            pages: at_most(SEARCH_PAGE_TTL, policy(SEARCH_PAGES, cache, SEARCH_PAGE_SHARES, page_weight)),
        },
    }
}

pub(super) fn member_policies(config: &Config) -> MemberPolicies {
    let cache = &cache_config(config);
    MemberPolicies {
        members: Policy {
            strict: true,
            ..seldom_there(policy(MEMBERS, cache, MEMBER_SHARES, Member::weight))
        },
        rosters: Policy { strict: true, ..policy(ROSTERS, cache, ROSTER_SHARES, |_| size_of::<Roster>()) },
        lists: MemberListPolicies {
            members: ListPolicies {
                epochs: half(policy(MEMBER_EPOCHS, cache, MEMBER_EPOCH_SHARES, ListEpoch::weight)),
                pages: half(policy(MEMBER_PAGES, cache, MEMBER_PAGE_SHARES, member_page_weight)),
            },
            groups: ListPolicies {
                epochs: half(policy(MEMBERSHIP_EPOCHS, cache, MEMBER_EPOCH_SHARES, ListEpoch::weight)),
                pages: half(policy(MEMBERSHIP_PAGES, cache, MEMBER_PAGE_SHARES, membership_page_weight)),
            },
        },
    }
}

pub(super) fn active_policy(config: &Config) -> Policy<Distribution> {
    let cache = &cache_config(config);
    let policy = policy(ACTIVE, cache, ACTIVE_SHARES, active_weight);
    Policy { age_max: Some(ACTIVE_AGE_MAX), max_stale: policy.max_stale.min(ACTIVE_AGE_MAX), ..policy }
}

pub(super) fn relation_policies(config: &Config) -> RelationPolicies {
    let cache = &cache_config(config);
    let pages = policy(FOLLOW_PAGES, cache, FOLLOW_PAGE_SHARES, follow_page_weight);
    RelationPolicies {
        follows: seldom_there(policy(FOLLOWS, cache, FOLLOW_SHARES, Follow::weight)),
        blocks: Policy { strict: true, ..seldom_there(policy(BLOCKS, cache, BLOCK_SHARES, Block::weight)) },
        follow_lists: ListPolicies {
            epochs: half(policy(FOLLOW_EPOCHS, cache, LIST_EPOCH_SHARES, ListEpoch::weight)),
            pages: Policy { age_max: Some(FOLLOW_PAGE_AGE_MAX), ..pages },
        },
        block_lists: ListPolicies {
            epochs: half(policy(BLOCK_EPOCHS, cache, LIST_EPOCH_SHARES, ListEpoch::weight)),
            pages: policy(BLOCK_PAGES, cache, BLOCK_PAGE_SHARES, block_page_weight),
        },
    }
}

/// Of copies that become wrong without a write.
fn at_most<V>(ttl: Duration, mut policy: Policy<V>) -> Policy<V> {
    policy.ttl = policy.ttl.min(ttl);
    policy.negative_ttl = policy.negative_ttl.min(ttl);
    policy
}

/// Of two kinds that share what one is given.
fn half<V>(mut policy: Policy<V>) -> Policy<V> {
    policy.memory_bytes /= 2;
    policy
}

/// Of records that most pairs of ids do not have: their absence is asked for as often, and kept as long as a record.
fn seldom_there<V>(mut policy: Policy<V>) -> Policy<V> {
    policy.negative_ttl = policy.ttl;
    policy
}

fn policy<V>(name: &'static str, cache: &CacheConfig, shares: u64, weigh: fn(&V) -> usize) -> Policy<V> {
    Policy {
        ttl: cache.ttl,
        negative_ttl: cache.negative_ttl,
        jitter: cache.jitter,
        max_stale: cache.max_stale,
        memory_bytes: cache.memory_bytes / SHARES * shares,
        soft_timeout: cache.load_soft,
        hard_timeout: cache.load_hard,
        loads_in_flight: cache.loads_in_flight,
        early_refresh: cache.early_refresh,
        ..Policy::new(name, weigh)
    }
}

/// How copies live in memory: as configured where others may write to the store. A file is locked by this node, so that copies
/// of what it holds stay until this node changes it.
fn cache_config(config: &Config) -> CacheConfig {
    let cache = config.cache.clone();
    match config.store.backend {
        Backend::Sqlite => {
            let ttl = Policy::<()>::UNTIL_CHANGED;
            CacheConfig { ttl, negative_ttl: ttl, ..cache }
        }
        Backend::Cluster => cache,
    }
}
