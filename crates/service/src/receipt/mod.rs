//! Receipts: who has read messages (ADR 0043).
//!
//! **Nothing is stored.** A receipt is computed from two facts, each with one owner: the members' stays,
//! which joins and leaves write, and the dialogs, which marks write.
//!
//! **Freshness.** A group's seats are kept in memory with their roster version, and the strict roster decides
//! whether they are current: a receipt has every join and leave that was acknowledged before. The members'
//! marks are kept for a second, of large groups for ten. A mark on this node drops them.
//!
//! **Rights.** The group's `receipts`, or else the configuration's, decides; services may always.

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
