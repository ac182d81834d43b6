//! Rows whose columns are read by name.

use std::sync::Arc;

use kith_store::{StoreError, Timestamp, UserId, Version};
use scylla::{
    response::query_result::QueryRowsResult,
    value::{CqlValue, Row},
};
use serde::de::DeserializeOwned;

use super::error::malformed;

/// A row whose columns are read by name, because the columns in the answer to a conditional write depend on
/// the server.
#[derive(Debug)]
pub(in crate::cql) struct NamedRow {
    /// All rows in an answer share it.
    names: Arc<[String]>,
    columns: Vec<Option<CqlValue>>,
}

impl NamedRow {
    /// Reads all rows in an answer.
    pub(in crate::cql) fn all(rows: &QueryRowsResult) -> Result<Vec<Self>, StoreError> {
        let names: Arc<[String]> = rows.column_specs().iter().map(|spec| spec.name().to_owned()).collect();
        let read = rows.rows::<Row>().map_err(|_| malformed("row"))?;
        let named = |row: Row| Self { names: Arc::clone(&names), columns: row.columns };
        read.map(|row| row.map(named).map_err(|_| malformed("row"))).collect()
    }

    /// Whether the conditional write took effect.
    pub(in crate::cql) fn applied(&self) -> Result<bool, StoreError> {
        match self.column("[applied]") {
            Some(CqlValue::Boolean(applied)) => Ok(*applied),
            _ => Err(malformed("[applied]")),
        }
    }

    /// A number, or `None` for null. The readers below without an `Option` return an error for null.
    pub(in crate::cql) fn number(&self, name: &'static str) -> Result<Option<i64>, StoreError> {
        match self.column(name) {
            None => Ok(None),
            Some(CqlValue::BigInt(number)) => Ok(Some(*number)),
            Some(CqlValue::Int(number)) => Ok(Some(i64::from(*number))),
            Some(_) => Err(malformed(name)),
        }
    }

    pub(in crate::cql) fn text(&self, name: &'static str) -> Result<Option<&str>, StoreError> {
        match self.column(name) {
            None => Ok(None),
            Some(CqlValue::Text(text)) => Ok(Some(text)),
            Some(_) => Err(malformed(name)),
        }
    }

    /// Decodes a text column as JSON.
    pub(in crate::cql) fn json<T: DeserializeOwned>(&self, name: &'static str) -> Result<T, StoreError> {
        let text = self.text(name)?.ok_or_else(|| malformed(name))?;
        serde_json::from_str(text).map_err(|_| malformed(name))
    }

    pub(in crate::cql) fn bytes(&self, name: &'static str) -> Result<Option<&[u8]>, StoreError> {
        match self.column(name) {
            None => Ok(None),
            Some(CqlValue::Blob(bytes)) => Ok(Some(bytes)),
            Some(_) => Err(malformed(name)),
        }
    }

    /// A list with numbers; null is an empty list.
    pub(in crate::cql) fn numbers(&self, name: &'static str) -> Result<Vec<i64>, StoreError> {
        let number = |value: &CqlValue| match value {
            CqlValue::BigInt(number) => Ok(*number),
            _ => Err(malformed(name)),
        };
        match self.column(name) {
            None => Ok(Vec::new()),
            Some(CqlValue::List(numbers)) => numbers.iter().map(number).collect(),
            Some(_) => Err(malformed(name)),
        }
    }

    pub(in crate::cql) fn some_number(&self, name: &'static str) -> Result<i64, StoreError> {
        self.number(name)?.ok_or_else(|| malformed(name))
    }

    pub(in crate::cql) fn small(&self, name: &'static str) -> Result<i32, StoreError> {
        i32::try_from(self.some_number(name)?).map_err(|_| malformed(name))
    }

    /// A number of users or records.
    pub(in crate::cql) fn count(&self, name: &'static str) -> Result<u32, StoreError> {
        u32::try_from(self.some_number(name)?).map_err(|_| malformed(name))
    }

    pub(in crate::cql) fn user(&self, name: &'static str) -> Result<UserId, StoreError> {
        UserId::new(self.some_number(name)?).map_err(|_| malformed(name))
    }

    pub(in crate::cql) fn version(&self, name: &'static str) -> Result<Version, StoreError> {
        Version::new(self.some_number(name)?).ok_or_else(|| malformed(name))
    }

    pub(in crate::cql) fn time(&self, name: &'static str) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.number(name)?.map(Timestamp))
    }

    fn column(&self, name: &str) -> Option<&CqlValue> {
        let at = self.names.iter().position(|column| column == name)?;
        self.columns.get(at)?.as_ref()
    }
}
