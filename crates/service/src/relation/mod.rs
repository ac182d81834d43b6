//! Follows, friends and blocks.
//!
//! **Freshness** of follows and their lists is that of [`crate::user`]: a write invalidates its record, and the lists
//! of both users. What users have set about others is a strict namespace: after a change is acknowledged, no node uses
//! the previous value. Counts are among the pages of their list.
//!
//! **Who may.** A user writes its own relations, and a service all. No other user reads whom a user has blocked;
//! `relations.lists` says which users read follow lists.

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
mod loader;
mod maintenance;
mod pages;
mod pair;
mod rpc;
mod set_operations;

pub use blocks::Blocks;
pub use config::{ListReaders, RelationMode, RelationsConfig};
pub use feed::feed_mappings;
pub use follows::{FollowListeners, Follows, RelationRules};
pub(crate) use friends::{are_friends, newest_friends};
pub use friendship_events::{DoNotDisturbListener, FollowListener, FriendshipListener};
pub use lists::{BlockLists, FollowLists, RelationListItem, block_page_weight, follow_page_weight};
pub use lists::{block_invalidations, follow_invalidations};
pub use maintenance::RelationUpkeep;
pub use rpc::RelationRpc;

/// Namespace of follows.
pub const FOLLOWS: &str = "follow";
/// Namespace of what users have set about others.
pub const BLOCKS: &str = "block";
/// Namespace of the epochs of lists of follows.
pub const FOLLOW_EPOCHS: &str = "follow_list_epoch";
/// Namespace of the pages of lists of follows.
pub const FOLLOW_PAGES: &str = "follow_list_page";
/// Namespace of the epochs of lists of blocks.
pub const BLOCK_EPOCHS: &str = "block_list_epoch";
/// Namespace of the pages of lists of blocks.
pub const BLOCK_PAGES: &str = "block_list_page";

use kith_cache::{ListPolicies, Policy};
use kith_store::{Block, Follow, ListPosition};

/// How the namespaces of relations behave.
#[derive(Clone, Debug)]
pub struct RelationPolicies {
    /// Of follows.
    pub follows: Policy<Follow>,
    /// Of what users have set about others.
    pub blocks: Policy<Block>,
    /// Of lists of follows.
    pub follow_lists: ListPolicies<RelationListItem>,
    /// Of lists of blocks.
    pub block_lists: ListPolicies<ListPosition>,
}
