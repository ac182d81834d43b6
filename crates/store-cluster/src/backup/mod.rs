//! Backups of both stores, and how to restore them.
//!
//! A backup is a folder: a file for each collection and each table, and a [`BackupManifest`]. A file is a
//! sequence of BSON documents, compressed with zstd. Of a collection these are its documents as they are, so
//! `zstd -dc mongodb.users.bson.zst | bsondump` shows them. Of a table each is a write, which restores some
//! cells of a row.

mod error;
mod files;
mod folder;
mod manifest;
mod verify;

pub use error::BackupError;
pub(crate) use files::{DocumentReader, DocumentWriter};
pub(crate) use folder::{begin_folder, end_folder};
pub(crate) use manifest::now;
pub use manifest::{BackupFile, BackupManifest, BackupStore};
pub(crate) use verify::{KnownSchema, verify};

/// How far a backup or a restore has come in one file.
#[derive(Clone, Copy, Debug)]
pub struct BackupProgress<'a> {
    /// The collection or table.
    pub name: &'a str,
    /// Documents or writes that are done.
    pub rows: u64,
}

/// Receives the progress.
pub type ReportProgress<'a> = &'a (dyn Fn(BackupProgress<'_>) + Sync);
