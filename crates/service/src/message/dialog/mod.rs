//! The calls of dialogs: marks, settings, unread counts, and lists of conversations.
//!
//! **Unread.** Counts are computed from message headers ([`kith_store::count_unread`]), and never stored.
//!
//! **Lists.** The order is computed for each page from the ends of all the user's conversations. A list's
//! dialogs, and the heads of logs, are read from the store.
//!
//! **Freshness.** The lowest readable numbers of conversations and members are strict.

mod convert;
mod heads;
mod import;
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
