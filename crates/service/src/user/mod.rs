//! Users.
//!
//! **Freshness.** A cached read comes from the node's memory. A write on the same node is seen by every read
//! that begins after its acknowledgement, and a read with a write's token sees it on every node.
//! `FindUserByName` and `SearchUsers` read the store. Absence is cached for a short time and invalidated by
//! the user's creation.
//!
//! **Invalidation.** `begin_write` drops this node's copy and keeps loads from filling it, the store commits,
//! and the write's result decides the tiers' content: see [`crate::write::mutations`].

pub mod access;
mod batch_encoder;
pub mod cache;
mod cleanup_job;
mod convert;
mod deletion;
mod feed;
mod loader;
mod profile_listener;
mod rpc;
mod users;

pub use access::{AccessDenial, Accesses, LiveAccess, access_job};
pub use cleanup_job::cleanup_job;
pub use deletion::{AccountCleanup, CLEANED_WITHIN, Cleaned, Deletions};
pub use feed::feed_mappings;
pub use profile_listener::ProfileListener;
pub use rpc::UserRpc;
pub(crate) use users::account_begins;
pub use users::{UserPolicies, UserRules, Users};

/// The name of the namespace in the tiers.
pub const USERS: &str = "user";
