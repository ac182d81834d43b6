//! Inboxes: the new messages and notes of each user, for the user's open receivers.

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "redis")]
mod entry_text;
mod gathered;
mod keeper;
mod memory;
mod note;
#[cfg(feature = "redis")]
mod redis;
mod wake;
#[cfg(feature = "redis")]
mod wake_form;

pub use keeper::{
    Entry, FanOut, FannedOut, Generation, InboxKeeper, Mark, Marked, Marks, Opened, Position, ReadFrom,
    Reading,
};
pub use memory::MemoryInboxes;
pub use note::Note;
#[cfg(feature = "redis")]
pub use redis::RedisInboxes;
pub use wake::{Heard, NodeWake, SentMessages, Wake, Wakes, Woken};
