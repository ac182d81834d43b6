//! How a node publishes its changes, follows those of other nodes, and proves that it missed none.

mod change_feed;
mod confirmations;
mod epochs;
mod follower;
mod follower_stats;
mod log_position;
mod metrics;
mod node_membership;
mod publisher;
mod recent_changes;

pub use change_feed::{Changes, Feed, FeedError, FeedReader, Reading};
pub use confirmations::Standing;
pub use epochs::Epochs;
pub use follower_stats::{Followed, Tally};
pub use log_position::{Chain, Heard};
pub use node_membership::{About, Following, Member};
pub use publisher::{SharedBus, UNTOLD};
pub use recent_changes::Recent;
