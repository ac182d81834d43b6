//! The cache namespaces for members.

use kith_cache::Policy;
use kith_store::{Member, Roster};

use super::{
    MEMBER_EPOCHS, MEMBER_PAGES, MEMBERS, MEMBERSHIP_EPOCHS, MEMBERSHIP_PAGES, MemberListPolicies,
    MemberPolicies, ROSTERS,
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
            members: defaults.list(MEMBER_EPOCHS, MEMBER_PAGES),
            groups: defaults.list(MEMBERSHIP_EPOCHS, MEMBERSHIP_PAGES),
        },
    }
}
