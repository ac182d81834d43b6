//! Notices to all an audience's readers, and the readers' marks.
//!
//! An audience has an entry for each notice, with the notice's slot: the position of its bit in each reader's
//! words. Slots are never reused, so that a late mark for a removed notice has no visible effect.

mod audience;
mod audience_change;
mod change;
mod entry;
mod read_bits;
mod reader;
mod record;
mod refusal;
mod store;

pub use audience::{Audience, AudienceId};
pub use audience_change::{AudienceChange, EXPIRED_KEPT};
pub use change::{ChangedAudience, NoticeChange, NoticeChangeResult, NoticeDecision};
pub use entry::{AudienceEntry, Slot, pack_entries, unpack_entries};
pub use read_bits::ReadBits;
pub use reader::{
    MarkedReader, NoticeReader, NoticeTotals, ReaderExtent, ReaderId, ReaderKey, ReaderMark, ReaderOrdinal,
    SINCE_CREATION, ScannedReader,
};
pub use record::{NOTICE_AUDIENCES_MAX, NewNotice, Notice, NoticeId, NoticePatch, NoticeTerms};
pub use refusal::NoticeRefusal;
pub use store::{
    NewAudience, NoticeReaderStore, NoticeStore, READERS_AT_ONCE, READERS_SCANNED, SLOTS_AT_ONCE,
};
