//! `kith backup` and `kith restore` as operators use them: the real program, on a node that serves.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "all of it are tests")]

mod bad_files;
mod killed;
mod ledger;
pub(crate) mod node;
mod under_writes;
