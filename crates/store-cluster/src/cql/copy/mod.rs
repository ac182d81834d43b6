//! Copies of tables for backups.

mod columns;
pub(crate) mod memberships;
mod read;
mod write;

use std::time::Duration;

use kith_store::StoreError;
use mongodb::bson::Document;
use scylla::{
    cluster::metadata::ColumnType,
    errors::ExecutionError,
    serialize::{
        SerializationError,
        value::SerializeValue,
        writers::{CellWriter, WrittenCellProof},
    },
};
use serde::{Deserialize, Serialize};

use crate::cql::client::error::write_failed;

/// How often a request is sent that fails, and the pause after the first failure.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(250);

/// Restores cells of a row that were written together.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct RowWrite {
    /// The key's columns; for static cells those of the partition key alone.
    #[serde(rename = "k")]
    key: Document,
    /// The cells, as the server sends them. Without any the row consists of its key.
    #[serde(rename = "c")]
    cells: Document,
    /// When the cells were written, in microseconds.
    #[serde(rename = "t")]
    written: i64,
    /// When the cells expire, in seconds since 1970.
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    expires: Option<i64>,
}

/// A value as the server sends it, whatever its type.
#[derive(Clone)]
struct RawCell(Vec<u8>);

impl SerializeValue for RawCell {
    fn serialize<'b>(
        &self,
        _: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        writer.set_value(&self.0).map_err(SerializationError::new)
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    kith_store::Timestamp::now().0 / 1_000
}

/// Sends a request that may be repeated, again and again for a few seconds: a copy is long, and servers that
/// are busy refuse some of its requests.
async fn repeated<T>(request: impl AsyncFn() -> Result<T, ExecutionError>) -> Result<T, StoreError> {
    for tries in 0..TRIES {
        match request().await {
            Ok(answer) => return Ok(answer),
            Err(error) if tries + 1 == TRIES => return Err(write_failed(&error)),
            Err(_) => tokio::time::sleep(PAUSE * 2_u32.pow(tries)).await,
        }
    }
    Err(StoreError::Overloaded)
}
