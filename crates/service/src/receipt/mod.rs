//! Receipts: the readers of messages (ADR 0043).
//!
//! **Nothing is stored.** A receipt is computed from two facts, each of which has one owner: the stays of the members, which joins and
//! leaves write, and the dialogs, which marks write.
//!
//! **Freshness.** Seats of a group are kept in memory with the version of the roster that they are of, and the strict
//! roster decides whether they are current: a receipt has every join and leave that was acknowledged before. Marks of
//! members are kept for `receipts.memory`. A mark of this node drops them.
//!
//! **Rights.** The `receipts` of the group, or of the configuration, decides; services may always.

mod changed_receipts;
mod config;
mod convert;
mod inputs;
mod marks;
mod notifier;
mod read_marks;
mod receipts;
mod rights;
mod rpc;
mod seat_copies;
mod sent_copies;
mod weighted_copies;

pub use changed_receipts::{ChangedReceipts, ReceiptChanges};
pub use config::{ReceiptsConfig, ReceiptsShown};
pub use notifier::notifier_job;
pub use read_marks::ReadMarks;
pub use receipts::Receipts;
pub use rpc::ReceiptRpc;
