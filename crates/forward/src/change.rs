//! Changes that are forwarded, and their source.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use thiserror::Error;

/// The change of one record, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Identifies the change: the `webhook-id`.
    pub position: String,
    /// The kind of the record, such as `user`.
    pub kind: String,
    /// Changes with the same text are delivered one after another, in their order.
    pub lane: String,
    /// Identifies the record among parked ones, such as `user/7`. Changes of one record are in one lane.
    pub record: String,
    /// The fields that identify the record.
    pub key: Map<String, Value>,
}

/// Changes, and the place after them.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// In their order.
    pub changes: Vec<Change>,
    /// Continues after these changes.
    pub cursor: String,
    /// How long to wait before the next page; zero if there may be more now.
    pub wait: Duration,
}

/// A record as it is now.
#[derive(Clone, Debug)]
pub enum ChangeRecord {
    /// The record, in JSON.
    Present(Box<RawValue>),
    /// There is no such record any more.
    Removed,
    /// No call returns records of this kind: the key alone is sent.
    KeyAlone,
    /// The record is larger than an answer may be: the key alone is sent, and says so.
    TooLarge,
}

/// Why a source returned nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceError {
    /// The source does not answer now. It is asked again until it does.
    #[error("{0}")]
    Away(String),
    /// The source does not return this record. After several tries the record is parked.
    #[error("{0}")]
    Failed(String),
    /// The source refuses the forwarder, which stops.
    #[error("{0}")]
    Refused(String),
}

/// Where changes and their records are read.
#[async_trait]
pub trait ChangeSource: Send + Sync {
    /// Returns at most `limit` changes after a cursor.
    ///
    /// # Errors
    /// See [`SourceError`]; `Failed` counts as `Away`.
    async fn page(&self, cursor: &str, limit: usize) -> Result<Page, SourceError>;

    /// Returns the changed record as it is now, never older than the change.
    ///
    /// # Errors
    /// See [`SourceError`].
    async fn record(&self, change: &Change) -> Result<ChangeRecord, SourceError>;
}
