//! The tier that nodes share: what it may contain for a record, and which state may replace which.
//!
//! The rules are implemented twice: here as functions on one key (for fakes, and as the reference), and as
//! Lua for Redis; one test table runs over both.

mod cluster;
#[cfg(feature = "redis")]
pub mod redis;
mod shared;

pub use cluster::{
    About, Changes, ClusterNode, Epochs, Feed, FeedError, FeedPosition, FeedProgress, FeedReader, FeedTiming,
    FollowerConfig, FollowerStats, FollowerStatus, FollowerThread, FrameOrder, LogPosition,
    PeerConfirmations, RecentChanges, SharedBus,
};
pub use shared::{
    Acquired, CHANGES_MAX, Cell, CellKind, CellWrite, Cells, ChangeAnswer, Codec, Confirmation, FakeServer,
    FillResult, Frame, Frames, HEADER_BYTES, Header, Heartbeat, LeaseWaiters, Log, LogEntry, Message,
    MessageMac, News, NextState, Peer, PeerPosition, ProbeAnswer, PublishedChange, Registry, Retention,
    SharedBackend, SharedError, Sharing, Snapshot, UnpublishedQueue, address,
};
pub(crate) use shared::{SharedSide, SharedTier};
