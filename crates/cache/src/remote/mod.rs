//! The tier that nodes share: what it may hold of a record, and what may replace what.
//!
//! The rules stand twice, once here as functions of one key (for fakes, and as what is meant), once as Lua
//! for Redis; one table of tests runs over both.

mod bus;
mod cell;
mod chain;
mod fake;
mod frame;
mod header;
mod member;
mod queue;
#[cfg(feature = "redis")]
mod scripts;
mod shared;
mod tier;

pub use bus::{SharedBus, UNTOLD};
pub use cell::{Acquired, Cell, Filled, Next};
pub use chain::{Chain, Heard};
pub use fake::{FakeServer, Snapshot};
pub use frame::{CHANGES_MAX, Frame, Told, changes, message};
pub use header::{HEADER_BYTES, Header, Kind};
pub use member::{Epochs, Following, Member};
pub use queue::{Queue, Waiting};
#[cfg(feature = "redis")]
pub use scripts::{Channel, Scripts};
pub use shared::{Changed, Entry, Frames, Kept, Order, Probed, Shared, SharedError, Sharing};
pub(crate) use tier::SharedTier;
pub use tier::{Codec, address};
