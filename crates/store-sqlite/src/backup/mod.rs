//! Backups of a data file, also while a running node writes it, and how to restore them.
//!
//! A backup is two files: a copy of the data file, and its [`Manifest`]. The copy is made within one read
//! transaction, so that it shows the state at one moment, also during writes. `VACUUM INTO` would do that,
//! too, but cannot pause or report its progress; copying pages without a transaction starts again whenever
//! the node writes.

mod copy;
mod error;
mod facts;
mod files;
mod manifest;
mod restore;
mod take;

pub use copy::Progress;
pub use error::BackupError;
pub use manifest::Manifest;
pub use restore::{Replace, Restored, restore};
pub use take::take;
