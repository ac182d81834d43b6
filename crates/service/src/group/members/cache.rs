//! The cache namespaces for members.

use kith_cache::{ListEpoch, ListPolicies, Policy};
use kith_store::{Member, Roster};

use super::{
    MEMBER_EPOCHS, MEMBER_PAGES, MEMBERS, MEMBERSHIP_EPOCHS, MEMBERSHIP_PAGES, MemberListPolicies,
    MemberPolicies, ROSTERS, member_page_weight, membership_page_weight,
};
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// Policies for copies of members and their lists.
#[must_use]
pub fn policies(defaults: &CacheDefaults) -> MemberPolicies {
    let members = often_absent(defaults.policy(MEMBERS, Member::weight));
    let rosters = defaults.policy(ROSTERS, |_| size_of::<Roster>());
    MemberPolicies {
        members: Policy { strict: true, ..members },
        rosters: Policy { strict: true, ..rosters },
        lists: MemberListPolicies {
            members: ListPolicies {
                epochs: defaults.policy(MEMBER_EPOCHS, ListEpoch::weight),
                pages: defaults.policy(MEMBER_PAGES, member_page_weight),
            },
            groups: ListPolicies {
                epochs: defaults.policy(MEMBERSHIP_EPOCHS, ListEpoch::weight),
                pages: defaults.policy(MEMBERSHIP_PAGES, membership_page_weight),
            },
        },
    }
}
