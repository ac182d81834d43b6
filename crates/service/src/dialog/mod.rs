//! Dialogs: what each user has read of a conversation and has set about it, and lists of conversations.
//!
//! **Marks.** Marks that wait on a node are written together, in one command of the store and one publication
//! ([`mark_queue`]). A mark is clipped to the current membership by the strict record of the member; what it skips becomes an
//! unread range.
//!
//! **Unread.** Computed from the headers of the messages ([`kith_store::count_unread`]), and never stored.
//!
//! **Lists.** The order is computed for each page from the ends of all conversations of a user. Dialogs of a list, and what is
//! shown of logs, are read from the store.
//!
//! **Freshness.** Dialogs are cached as users are. Lowest numbers of conversations and members are strict.

pub mod cache;
mod cleanup;
mod codec;
mod convert;
mod dialogs;
mod feed;
mod heads;
mod list;
mod loader;
mod mark_queue;
mod marks;
mod order;
mod peers;
mod records;
mod rpc;
mod settings;
mod shown;
mod unread;
mod waiting_marks;

pub use cleanup::DialogCleanup;
pub use dialogs::Dialogs;
pub use feed::feed_mappings;
pub(crate) use mark_queue::{MarkQueue, MarkWish};
pub use records::DialogRecords;
pub use rpc::DialogRpc;

/// The namespace of the records.
const DIALOGS: &str = "dialog";
