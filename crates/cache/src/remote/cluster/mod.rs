//! How a node publishes its changes, follows those of other nodes, and proves that it missed none.

mod change_feed;
mod cluster_node;
mod confirmations;
mod delay_line;
mod discards;
mod epochs;
mod feed_progress;
mod feed_reader;
mod follower;
mod follower_stats;
mod follower_thread;
mod log_position;
mod metrics;
mod node_membership;
mod publisher;
mod recent_changes;

pub use change_feed::{Changes, Feed, FeedError, FeedPosition, FeedTiming};
pub use cluster_node::{About, ClusterNode, FollowerConfig};
pub use confirmations::PeerConfirmations;
pub use epochs::Epochs;
pub use feed_progress::FeedProgress;
pub use feed_reader::FeedReader;
pub use follower_stats::{FollowerStats, FollowerStatus};
pub use follower_thread::FollowerThread;
pub use log_position::{FrameOrder, LogPosition};
pub use publisher::SharedBus;
pub use recent_changes::RecentChanges;
