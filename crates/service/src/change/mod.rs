//! Changes that other systems read: which records have changed, in order, from a cursor on (ADR 0073).
//!
//! The store keeps changes as entries, one feed or several. A cursor has a position in each feed. Readers at
//! the end of all feeds cost the store one read in 100 ms, however many there are.

mod config;
mod convert;
mod cursor;
#[cfg(test)]
mod fake;
mod kept;
mod recent;
mod rpc;
mod upkeep;

pub use config::ChangesConfig;
pub use kept::KeptChanges;
pub use rpc::ChangeRpc;
pub use upkeep::{keep_as_configured, upkeep_job};
