//! Follows, friends and blocks.
//!
//! **Freshness.** Follows and their lists are as fresh as in [`crate::user`]: a write invalidates its record,
//! and both users' lists. Settings for others are a strict namespace: after a change is acknowledged, no node
//! uses the previous value. Counts are among their list's pages.
//!
//! **Rights.** A user writes its own relations, and a service all. No other user reads whom a user has
//! blocked; `relations.lists` says which users read follow lists.

mod batch_encoder;
mod blocks;
pub mod cache;
mod config;
mod convert;
mod feed;
mod follows;
mod friends;
mod friendship_events;
mod import;
mod list_readers;
mod lists;
mod maintenance;
mod pages;
mod pair;
mod rpc;
mod set_operations;
mod settings_import;

pub use blocks::Blocks;
pub use config::{ListReaders, RelationMode, RelationsConfig};
pub use feed::feed_mappings;
pub use follows::{FollowListeners, Follows, RelationRules};
pub(crate) use friends::{are_friends, newest_friends};
pub use friendship_events::{DoNotDisturbListener, FollowListener, FriendshipListener};
pub use lists::{BlockLists, FollowLists, RelationListItem};
pub use lists::{block_invalidations, follow_invalidations};
pub use maintenance::RelationUpkeep;
pub use rpc::RelationRpc;

/// The namespace for follows.
pub const FOLLOWS: &str = "follow";
/// The namespace for users' settings for others.
pub const BLOCKS: &str = "block";
/// The namespace for follow list epochs.
pub const FOLLOW_EPOCHS: &str = "follow_list_epoch";
/// The namespace for follow list pages.
pub const FOLLOW_PAGES: &str = "follow_list_page";
/// The namespace for block list epochs.
pub const BLOCK_EPOCHS: &str = "block_list_epoch";
/// The namespace for block list pages.
pub const BLOCK_PAGES: &str = "block_list_page";

use kith_cache::{ListPolicies, Policy};
use kith_store::{Block, Follow, ListPosition};

/// The policies for relation namespaces.
#[derive(Clone, Debug)]
pub struct RelationPolicies {
    /// The policy for follows.
    pub follows: Policy<Follow>,
    /// The policy for users' settings for others.
    pub blocks: Policy<Block>,
    /// The policies for follow lists.
    pub follow_lists: ListPolicies<RelationListItem>,
    /// The policies for block lists.
    pub block_lists: ListPolicies<ListPosition>,
}
