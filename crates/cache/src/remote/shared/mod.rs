//! What nodes share on the server, and its rules: cells, the log, the registry, messages.

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

pub use backend::{Kept, Shared, SharedError, Sharing};
pub use cell::{Acquired, Cell, Filled, Next};
pub use cells::Cells;
pub use fake_server::{FakeServer, Snapshot};
pub use header::{HEADER_BYTES, Header, Kind};
pub use lease_waiters::LeaseWaiters;
pub use log::{Changed, Confirmed, Frames, Log, LogEntry, News, Order};
pub use message::{CHANGES_MAX, Frame, Message, PublishedChange};
pub use message_mac::MessageMac;
pub use registry::{Alive, Peer, Probed, Registry};
pub use tier::{Codec, address};
pub(crate) use tier::{SharedSide, SharedTier};
pub use unpublished::Queue;
