//! Inboxes: each user's new messages and notes, for the user's open receivers.

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "redis")]
mod entry_text;
mod fan_out_answers;
mod keeper;
mod memory;
mod note;
#[cfg(feature = "redis")]
mod redis;
mod wake;
#[cfg(feature = "redis")]
mod wake_form;

pub use keeper::{
    AbandonedReceivers, Entry, FanOutResult, Generation, InboxKeeper, Mark, MarkOutcome, Marks, OpenedInbox,
    Position, ReadFrom, ReadOutcome,
};
pub use memory::MemoryInboxes;
pub use note::Note;
#[cfg(feature = "redis")]
pub use redis::RedisInboxes;
pub use wake::{NodeWake, SentMessages, Wake, WakeEvent, WakeSubscription, WokenUser};
