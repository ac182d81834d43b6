//! Delivery: copies of each conversation's last messages, an inbox for each user with receivers, and sequence
//! numbers, in blocks from the store.
//!
//! A window has one conversation's last messages, for all nodes. It is filled from the store, and each append
//! adds to it. [`Windows`] reads them, and the store where there is none. [`WindowKeeper`] is their storage
//! contract, which [`RedisWindows`] implements by short scripts.
//!
//! [`Sequences`] issues numbers, and [`SequenceKeeper`] is the contract for storing their blocks:
//! [`RedisSequences`] for all nodes, [`MemorySequences`] for one.
//!
//! The store is the source of truth. Invariant: a window never has a message without a change whose event the
//! window has, too, and it is not used for longer than [`WindowLimits::checked`] without proof that the log
//! ends where the window does.
//!
//! [`ReaderBitmaps`] keeps which readers have read a notice, for counts.
//!
//! An inbox has an entry for each message range that is new to its user. [`InboxKeeper`] is their storage
//! contract, which [`MemoryInboxes`] implements for a single node, and [`RedisInboxes`] for several. One
//! suite tests both (`conformance!`). Bodies are only in the log.

mod bitmaps;
pub mod entry;
mod epoch;
mod fan_out_notes;
mod inbox;
mod keeper;
mod limits;
mod metrics;
#[cfg(feature = "redis")]
mod redis;
mod sequence;
mod windows;

pub use self::metrics::METRICS;
#[cfg(feature = "redis")]
pub use bitmaps::RedisBitmaps;
pub use bitmaps::{BitmapFill, FillTicket, ReaderBitmaps, ReaderSection, SectionBits};
pub use epoch::EpochSource;
pub use fan_out_notes::FanOutNotes;
#[cfg(feature = "redis")]
pub use fan_out_notes::RedisFanOutNotes;
#[cfg(feature = "redis")]
pub use inbox::RedisInboxes;
#[cfg(feature = "conformance")]
pub use inbox::conformance;
pub use inbox::{
    AbandonedReceivers, Entry, FanOutResult, Generation, InboxKeeper, Mark, MarkOutcome, Marks,
    MemoryInboxes, NodeWake, Note, OpenedInbox, Position, ReadFrom, ReadOutcome, SentMessages, Wake,
    WakeEvent, WakeSubscription, WokenUser,
};
pub use keeper::{
    Append, Confirm, DropReason, Fill, FillOutcome, HeadLookup, HoldToken, LeaseToken, ServerTime, Span,
    WindowKeeper, WindowLookup, WindowSnapshot,
};
pub use limits::{InboxLimits, WindowLimits};
#[cfg(feature = "redis")]
pub use redis::RedisWindows;
#[cfg(feature = "redis")]
pub use sequence::RedisSequences;
pub use sequence::{
    Background, FetchLease, MemorySequences, Offer, SequenceKeeper, SequenceLimits, Sequences, Take, Taken,
};
pub use windows::{HeadOf, RecentMessages, RequestedMessages, WindowHold, Windows};
