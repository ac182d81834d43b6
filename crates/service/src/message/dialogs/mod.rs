//! The calls of dialogs: marks, settings, unread counts, and lists of conversations.
//!
//! **Unread.** Computed from the headers of the messages ([`kith_store::count_unread`]), and never stored.
//!
//! **Lists.** The order is computed for each page from the ends of all conversations of a user. Dialogs of a list, and
//! the heads of logs, are read from the store.
//!
//! **Freshness.** Lowest numbers of conversations and members are strict.

mod convert;
mod heads;
mod list;
mod marks;
mod order;
mod peers;
mod rpc;
mod service;
mod settings;
mod shown;
mod unread;

pub(super) use convert::user;
pub(super) use heads::LogHeads;
pub use rpc::DialogRpc;
pub use service::Dialogs;
