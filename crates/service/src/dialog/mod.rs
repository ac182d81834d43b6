//! The records of dialogs: read marks and settings of users for their conversations. The calls need messages,
//! and are in `message/dialog/`.
//!
//! **Marks.** Marks that wait on a node are written together, in one store command and one publication
//! (`mark_queue`). A mark is clipped to the current membership by the member's strict record; messages that
//! it skips become an unread range.
//!
//! **Freshness.** Dialogs are cached like users.

pub mod cache;
mod cleanup;
mod feed;
mod head_reader;
mod mark_command;
mod mark_listener;
mod mark_queue;
mod records;
mod waiting_marks;

pub use cleanup::DialogCleanup;
pub use feed::feed_mappings;
pub(crate) use head_reader::{HeadAfter, HeadReader};
pub use mark_listener::MarkListener;
pub(crate) use mark_queue::{MarkQueue, MarkRequest, out_of_range};
pub use records::DialogRecords;

/// The namespace of the records.
const DIALOGS: &str = "dialog";
