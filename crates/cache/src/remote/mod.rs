//! The tier that nodes share: what it may contain of a record, and which state may replace which.
//!
//! The rules are implemented twice, here as functions of one key (for fakes, and as the reference), and as Lua for
//! Redis; one table of tests runs over both.

mod cluster;
#[cfg(feature = "redis")]
pub mod redis;
pub(crate) mod shared;

pub use cluster::{
    About, Chain, Changes, Epochs, Feed, FeedError, FeedReader, Followed, Following, Heard, Member, Reading,
    Recent, SharedBus, Standing, Tally, UNTOLD,
};
pub use shared::{
    Acquired, Alive, CHANGES_MAX, Cell, Cells, Changed, Codec, Confirmed, Entry, FakeServer, Filled, Frame,
    Frames, HEADER_BYTES, Header, Kept, Kind, Log, Message, News, Next, Order, Peer, Probed, Queue, Registry,
    Seal, Shared, SharedError, Sharing, Snapshot, Told, Wakes, address,
};
pub(crate) use shared::{SharedSide, SharedTier};
