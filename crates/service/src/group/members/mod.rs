//! Members of groups, and their rights.
//!
//! **Freshness.** Members and rosters are strict namespaces: after a change is acknowledged, no node uses the previous
//! value. Cached lists may be as old as lists of follows: they contain candidates. Each candidate is checked against its
//! record before it is returned, so a removed user is never returned.
//!
//! **Rights.** The store checks the role of the acting user when it applies a change
//! ([`kith_store::MembershipTransition`]). A service has all rights. A group without members and owner belongs to its
//! creator: the first access makes the creator its owner.

mod approvals;
mod bans;
pub mod cache;
mod cleanup;
mod config;
mod convert;
mod inviting;
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

pub use config::{AddedByUsers, MembersConfig};
pub use inviting::GroupInvitations;
pub use lists::{member_invalidations, roster_invalidations};
pub use lists::{member_page_weight, membership_page_weight};
pub use membership_events::{
    EndedMemberships, LeaveReason, MembershipEvent, MembershipListener, MembershipListeners,
};
pub(crate) use message_ranges::KnownStays;
pub use roles::Roles;
pub use rpc::MemberRpc;
pub(crate) use seats::GroupSeats;
pub use service::{MemberDependencies, MemberRules, Members};

use kith_cache::{ListPolicies, Policy};
use kith_store::{GroupId, Member, Roster, UserId};

/// Namespace of members.
pub const MEMBERS: &str = "member";
/// Namespace of rosters.
pub const ROSTERS: &str = "roster";
/// Namespace of the epochs of lists of members.
pub const MEMBER_EPOCHS: &str = "member_list_epoch";
/// Namespace of the pages of lists of members.
pub const MEMBER_PAGES: &str = "member_list_page";
/// Namespace of the epochs of lists of groups of users.
pub const MEMBERSHIP_EPOCHS: &str = "membership_list_epoch";
/// Namespace of the pages of lists of groups of users.
pub const MEMBERSHIP_PAGES: &str = "membership_list_page";

/// Policies of the namespaces of members.
#[derive(Clone, Debug)]
pub struct MemberPolicies {
    /// For members; strict.
    pub members: Policy<Member>,
    /// For rosters; strict.
    pub rosters: Policy<Roster>,
    /// For lists.
    pub lists: MemberListPolicies,
}

/// Policies of the namespaces of lists of members.
#[derive(Clone, Debug)]
pub struct MemberListPolicies {
    /// For lists of members of groups.
    pub members: ListPolicies<UserId>,
    /// For lists of groups of users.
    pub groups: ListPolicies<GroupId>,
}
