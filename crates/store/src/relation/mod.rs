//! Follows, users' settings for others, and the relation log.

mod block;
mod edges;
mod follow;
mod log;

pub use block::{Block, BlockChange, BlockList, BlockPatch, BlockStore, Permissions};
pub use edges::{CountsRebuilt, EdgeDifference, EdgeDifferenceKind, EdgeUpkeep, EdgesVerified, RemovedEdges};
pub use follow::{
    Edge, Follow, FollowCounts, FollowList, FollowStore, IMPORT_FOLLOWS_MAX, ImportedFollow, ListPosition,
};
pub use log::{RelationEvent, RelationEventKind, RelationLog};
