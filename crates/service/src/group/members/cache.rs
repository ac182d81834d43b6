//! The namespaces of members in the caches.

use kith_cache::{ListEpoch, ListPolicies, Policy};
use kith_store::{Member, Roster};

use super::{
    MEMBER_EPOCHS, MEMBER_PAGES, MEMBERS, MEMBERSHIP_EPOCHS, MEMBERSHIP_PAGES, MemberListPolicies,
    MemberPolicies, ROSTERS, member_page_weight, membership_page_weight,
};
use crate::write::cache_defaults::{CacheDefaults, halved, often_absent};

/// The largest share, as members are read for every message of a group. With 256 MiB it holds some 100,000 members, or
/// 170,000 absences.
const MEMBER_SHARES: u64 = 5;
const ROSTER_SHARES: u64 = 1;
/// Pages of both kinds of lists: half a share each.
const PAGE_SHARES: u64 = 1;
/// Epochs of both kinds of lists: half a share each.
const EPOCH_SHARES: u64 = 1;
/// Shares of the memory.
pub const SHARES: u64 = MEMBER_SHARES + ROSTER_SHARES + PAGE_SHARES + EPOCH_SHARES;

/// Policies of the copies of members and their lists.
#[must_use]
pub fn policies(defaults: &CacheDefaults) -> MemberPolicies {
    let members = often_absent(defaults.policy(MEMBERS, MEMBER_SHARES, Member::weight));
    let rosters = defaults.policy(ROSTERS, ROSTER_SHARES, |_| size_of::<Roster>());
    MemberPolicies {
        members: Policy { strict: true, ..members },
        rosters: Policy { strict: true, ..rosters },
        lists: MemberListPolicies {
            members: ListPolicies {
                epochs: halved(defaults.policy(MEMBER_EPOCHS, EPOCH_SHARES, ListEpoch::weight)),
                pages: halved(defaults.policy(MEMBER_PAGES, PAGE_SHARES, member_page_weight)),
            },
            groups: ListPolicies {
                epochs: halved(defaults.policy(MEMBERSHIP_EPOCHS, EPOCH_SHARES, ListEpoch::weight)),
                pages: halved(defaults.policy(MEMBERSHIP_PAGES, PAGE_SHARES, membership_page_weight)),
            },
        },
    }
}
