//! The tier that nodes share: what it may contain of a record, and which state may replace which.
//!
//! The rules are implemented twice, here as functions of one key (for fakes, and as the reference), and as Lua for
//! Redis; one table of tests runs over both.

mod bus;
mod cell;
mod cells;
mod chain;
mod epochs;
mod fake;
mod feed;
mod follower;
mod form;
mod frame;
mod header;
mod lately;
mod log;
mod member;
pub(crate) mod metrics;
mod queue;
mod recent;
#[cfg(feature = "redis")]
pub mod redis;
mod registry;
mod seal;
mod shared;
mod standing;
mod tally;
mod tier;
mod wakes;

pub use bus::{SharedBus, UNTOLD};
pub use cell::{Acquired, Cell, Filled, Next};
pub use cells::Cells;
pub use chain::{Chain, Heard};
pub use epochs::Epochs;
pub use fake::{FakeServer, Snapshot};
pub use feed::{Changes, Feed, FeedError, FeedReader, Reading};
pub use frame::{CHANGES_MAX, Frame, Message, Told};
pub use header::{HEADER_BYTES, Header, Kind};
pub use log::{Changed, Confirmed, Entry, Frames, Log, News, Order};
pub use member::{About, Following, Member};
pub use queue::Queue;
pub use recent::Recent;
pub use registry::{Alive, Peer, Probed, Registry};
pub use seal::Seal;
pub use shared::{Kept, Shared, SharedError, Sharing};
pub use standing::Standing;
pub use tally::{Followed, Tally};
pub use tier::{Codec, address};
pub(crate) use tier::{SharedSide, SharedTier};
pub use wakes::Wakes;
