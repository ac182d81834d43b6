//! Group members and their rights.
//!
//! **Freshness.** Members and rosters are strict namespaces: after a change is acknowledged, no node uses the
//! previous value. Cached lists may be as old as follow lists: they contain candidates. Each candidate is
//! checked against its record before it is returned, so a removed user is never returned.
//!
//! **Rights.** The store checks the acting user's role when it applies a change
//! ([`kith_store::MembershipTransition`]). A service has all rights. A group without members and owner
//! belongs to its creator: the first access makes the creator its owner.

mod approvals;
mod bans;
pub mod cache;
mod cleanup;
mod config;
mod convert;
mod import;
mod inviting;
mod lists;
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

/// The namespace for members.
pub const MEMBERS: &str = "member";
/// The namespace for rosters.
pub const ROSTERS: &str = "roster";
/// The namespace for member list epochs.
pub const MEMBER_EPOCHS: &str = "member_list_epoch";
/// The namespace for member list pages.
pub const MEMBER_PAGES: &str = "member_list_page";
/// The namespace for the epochs of users' group lists.
pub const MEMBERSHIP_EPOCHS: &str = "membership_list_epoch";
/// The namespace for the pages of users' group lists.
pub const MEMBERSHIP_PAGES: &str = "membership_list_page";

/// Policies for member namespaces.
#[derive(Clone, Debug)]
pub struct MemberPolicies {
    /// The policy for members; strict.
    pub members: Policy<Member>,
    /// The policy for rosters; strict.
    pub rosters: Policy<Roster>,
    /// Policies for the lists.
    pub lists: MemberListPolicies,
}

/// Policies for member list namespaces.
#[derive(Clone, Debug)]
pub struct MemberListPolicies {
    /// The policies for lists of a group's members.
    pub members: ListPolicies<UserId>,
    /// The policies for lists of a user's groups.
    pub groups: ListPolicies<GroupId>,
}
