//! Notices to all readers of an audience, and the marks of readers (ADR 0042).
//!
//! **Durability.** Every mark is in the store before it is acknowledged. A reader is one versioned record that has the
//! read bits of all notices of its audience, cached as a user is: its unread notices are computed from two cached
//! records.
//!
//! **Totals on streams** are compared in memory once a second.
//!
//! **Counts** of readers are derived: from bitmaps in Redis where nodes share one, else from scans that are at most 10 s old.

pub mod cache;
mod cleanup;
mod config;
mod convert;
mod counts;
mod feed;
mod listing;
mod live;
mod loader;
mod marks;
mod publishing;
mod reader_lists;
mod reading;
mod records;
mod rpc;
mod upkeep;

pub use cleanup::NoticeCleanup;
pub use config::NoticesConfig;
pub use counts::ReaderCounts;
pub use feed::feed_mappings;
pub use live::LiveTotals;
pub(crate) use live::{AudienceTotals, TotalsListener, TotalsWatches};
pub use records::NoticeRecords;
pub use rpc::NoticeRpc;
pub use upkeep::upkeep_job;

/// The namespace of audiences.
const AUDIENCES: &str = "audience";
/// The namespace of notices.
const NOTICES: &str = "notice";
/// The namespace of readers.
const READERS: &str = "notice_reader";
