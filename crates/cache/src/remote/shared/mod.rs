//! The data that nodes share on the server, and its rules: cells, the log, the registry, messages.

mod backend;
mod cell;
mod cells;
mod fake_server;
mod header;
mod lease_waiters;
mod log;
mod message;
mod message_mac;
mod recent_publishes;
mod registry;
mod tier;
mod unpublished;
mod wire_version;

pub use backend::{Retention, SharedBackend, SharedError, Sharing};
pub use cell::{Acquired, Cell, FillResult, NextState};
pub use cells::Cells;
pub use fake_server::{FakeServer, Snapshot};
pub use header::{CellKind, HEADER_BYTES, Header};
pub use lease_waiters::LeaseWaiters;
pub use log::{CellWrite, ChangeAnswer, Confirmation, Frames, Log, LogEntry, News};
pub use message::{CHANGES_MAX, Frame, Message, PublishedChange};
pub use message_mac::MessageMac;
pub use registry::{Heartbeat, Peer, PeerPosition, ProbeAnswer, Registry};
pub use tier::{Codec, address};
pub(crate) use tier::{SharedSide, SharedTier};
pub use unpublished::UnpublishedQueue;
