//! Notices to all readers in an audience, and the readers' marks (ADR 0042).
//!
//! **Durability.** Every mark is in the store before it is acknowledged. A reader is one versioned record
//! with the read bits for all its audience's notices. It is cached like a user. A reader's unread notices are
//! computed from two cached records: the reader and the audience.
//!
//! **Totals on streams** are compared in memory once a second.
//!
//! **Reader counts** are derived data: from bitmaps in Redis if nodes share one, else from store scans that
//! are at most 10 s old.

pub mod cache;
mod cleanup;
mod config;
mod convert;
mod counts;
mod feed;
mod listing;
mod live;
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

/// The namespace for audiences.
const AUDIENCES: &str = "audience";
/// The namespace for notices.
const NOTICES: &str = "notice";
/// The namespace for readers.
const READERS: &str = "notice_reader";
