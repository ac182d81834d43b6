//! Who is in which group, and what they may do there.
//!
//! **Freshness.** Members and rosters are strict namespaces: once a change is acknowledged, no node decides by what was
//! before. Lists tell who may be in them, and are as fresh as those of follows; what they show are the records, so
//! that nobody is shown who was put out.
//!
//! **Who may.** Roles decide, in the store, by what is so when the change is made ([`kith_store::Room`]); a service may do
//! all. A group that nobody is in or owns is its creator's: whoever comes to it first finds it founded.

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
