//! Groups.
//!
//! **Freshness** and **invalidation** are those of [`crate::user`]. `SearchGroups` asks the store.
//!
//! **Who may.** A service, and the creator of a group, may do what owner and admins will once groups have
//! members. A group that is private, or joined by code, has an invite code; it changes in the same write
//! as what makes it needed.

mod convert;
mod groups;
mod loader;
mod rpc;

pub use groups::Groups;
pub use rpc::GroupRpc;
