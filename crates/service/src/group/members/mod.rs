//! Members of groups, and what they may do there.
//!
//! **Freshness.** Members and rosters are strict namespaces: after a change is acknowledged, no node uses the previous
//! value. Lists say who may be a member, and are as fresh as those of follows; the answer shows the records, so that a
//! removed user is never shown.
//!
//! **Who may.** Roles decide, in the store, from the state at the moment of the change ([`kith_store::Room`]); a
//! service may do everything. A group without members and owner belongs to its creator: the first access makes the
//! creator its owner.

mod approvals;
mod bans;
pub mod cache;
mod cleanup;
mod codec;
mod config;
mod convert;
mod lists;
mod loader;
mod membership_events;
mod message_ranges;
mod pages;
mod reads;
mod roles;
mod rpc;
mod seats;
mod service;
mod writes;

pub use config::MembersConfig;
pub use lists::{member_invalidations, roster_invalidations};
pub use lists::{member_page_weight, membership_page_weight};
pub use membership_events::{Ended, Leaving, MembershipEvent, MembershipListener, MembershipListeners};
pub(crate) use message_ranges::KnownStays;
pub use roles::Roles;
pub use rpc::MemberRpc;
pub(crate) use seats::GroupSeats;
pub use service::{Among, MemberRules, Members};

use kith_cache::{ListPolicies, Policy};
use kith_store::{GroupId, Member, Roster, UserId};

/// Namespace of members.
pub const MEMBERS: &str = "member";
/// Namespace of what is true of all members of a group.
pub const ROSTERS: &str = "roster";
/// Namespace of the epochs of lists of members.
pub const MEMBER_EPOCHS: &str = "member_list_epoch";
/// Namespace of the pages of lists of members.
pub const MEMBER_PAGES: &str = "member_list_page";
/// Namespace of the epochs of lists of groups of users.
pub const MEMBERSHIP_EPOCHS: &str = "membership_list_epoch";
/// Namespace of the pages of lists of groups of users.
pub const MEMBERSHIP_PAGES: &str = "membership_list_page";

/// How the namespaces of members behave.
#[derive(Clone, Debug)]
pub struct MemberPolicies {
    /// Of members; strict.
    pub members: Policy<Member>,
    /// Of rosters; strict.
    pub rosters: Policy<Roster>,
    /// Of lists.
    pub lists: MemberListPolicies,
}

/// How the namespaces of lists of members behave.
#[derive(Clone, Debug)]
pub struct MemberListPolicies {
    /// Of lists of members of groups.
    pub members: ListPolicies<UserId>,
    /// Of lists of groups of users.
    pub groups: ListPolicies<GroupId>,
}
