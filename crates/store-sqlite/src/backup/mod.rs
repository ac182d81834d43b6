//! Backups of a data file, also of one that a running node writes, and their restoration.
//!
//! A backup is two files: a copy of the data file, and beside it its [`Manifest`]. The copy is made within one
//! read transaction, so that it is the state of one moment, whatever is written meanwhile. `VACUUM INTO`
//! would be that too, but cannot rest or tell how far it is; the copying of pages without a transaction
//! begins again with every write of the node.

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
