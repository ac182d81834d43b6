//! Groups.
//!
//! **Freshness** and **invalidation** work as in [`crate::user`]. `SearchGroups` finds id pages through the
//! tiers, and shows the records: see the comment at the top of `search.rs`. A write is seen by every search
//! on the same node that begins after its acknowledgement.
//!
//! **Rights.** A service, and the group's owner and admins, may change it; only a service and the owner may
//! dismiss it: see [`crate::group::member`]. A private group is shown to its members, and to users who are
//! invited or apply. A group that is private, or joined by code, has an invite code; it changes in the same
//! write as the settings that require it.

mod audience;
pub mod cache;
mod convert;
mod feed;
mod groups;
mod keyword;
mod listing;
mod loader;
pub mod member;
mod renaming;
mod rpc;
mod search;

pub use audience::PendingGroups;
pub use feed::feed_mappings;
pub use groups::{FoundGroups, GroupPolicies, GroupRules, Groups};
pub use keyword::GroupKeyword;
pub use renaming::{GroupListener, GroupListeners, RenameListener};
pub use rpc::GroupRpc;
pub use search::{SEARCH_EPOCHS, SEARCH_PAGES, search_invalidations};

/// The namespace for records in the tiers.
pub const GROUPS: &str = "group";
