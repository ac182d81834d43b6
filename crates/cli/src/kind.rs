//! The kinds of records that are imported and exported: their JSON form and their calls.

use std::collections::HashMap;

use crate::client::Channel;
use futures::{future::BoxFuture, stream::BoxStream};
use kith_proto::r#type::v1::{
    Consistency, ImportResult, ResultError, consistency::Level, import_result::Result as Outcome,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status};

use kith_service::error::Reason;

/// A stream's messages, until its first error.
pub(super) type MessageStream<T> = BoxStream<'static, Result<T, Status>>;

/// The id of a record that a call has made; `None`: the same record is stored already.
pub(super) type RecordOutcome<'a> = BoxFuture<'a, Result<Option<i64>, Status>>;

/// A record to import.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry<R> {
    /// The line number in the file. Starts at 1.
    pub(super) line: u64,
    /// The id that distinguishes a repeated record from a new record.
    pub(super) request_id: String,
    /// The line's record.
    pub(super) record: R,
}

impl<R> Entry<R> {
    /// Returns the line number as requests have it.
    pub(super) fn number(&self) -> i64 {
        i64::try_from(self.line).unwrap_or(i64::MAX)
    }
}

/// A kind of record that can be imported.
pub(super) trait Import {
    /// The kind's name: `users`.
    const NAME: &'static str;

    /// The message type.
    type Record: prost::Message + Clone + Default + PartialEq + 'static;

    /// Examines a file's beginning. Fails if its lines contain no records, with a text that follows the file
    /// name.
    fn examine(&mut self, _beginning: &[u8]) -> Result<(), String> {
        Ok(())
    }

    /// Reads a record from a line; `None`: a line without a record, such as a comment. The error says why the
    /// line is invalid, without values.
    fn read_line(&self, line: &[u8]) -> Result<Option<Self::Record>, String>;

    /// Sends chunks of records; one answer for each chunk, in order.
    async fn import(
        &self,
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<Self::Record>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status>;

    /// Returns, for each record, whether the stored record equals it. Their ids exist.
    async fn are_stored(&self, channel: Channel, sent: &[&Self::Record]) -> Result<Vec<bool>, Status>;
}

/// Records that can be exported, by rising number.
pub(super) trait Export {
    /// The message type.
    type Record;

    /// Formats a record as a line, without the newline.
    fn line(record: &Self::Record) -> serde_json::Result<String>;

    /// Returns the number by which records are ordered.
    fn number(record: &Self::Record) -> i64;

    /// Reads all records by ascending number above `after`.
    async fn export(&self, channel: Channel, after: i64) -> Result<MessageStream<Vec<Self::Record>>, Status>;
}

/// Some records that a node stores.
#[derive(Debug)]
pub(super) struct StoredRecords<R> {
    /// The records that exist.
    pub(super) records: Vec<R>,
    /// Ids that the answer had no room for.
    left_out: Vec<i64>,
}

impl<R> Default for StoredRecords<R> {
    fn default() -> Self {
        Self { records: Vec::new(), left_out: Vec::new() }
    }
}

impl<R> StoredRecords<R> {
    /// Adds an id's error. Fails if the id cannot be read by asking again with fewer ids.
    pub(super) fn fail(&mut self, id: i64, error: ResultError) -> Result<(), Status> {
        if error.reason != Reason::AnswerTooLarge.name() {
            return Err(Status::new(Code::from(error.code), error.message));
        }
        self.left_out.push(id);
        Ok(())
    }
}

/// Imports records by calls of their own, one after the other.
pub(super) async fn import_each<R>(
    channel: Channel,
    chunk: Vec<Entry<R>>,
    call: for<'a> fn(&'a Channel, &'a R) -> RecordOutcome<'a>,
) -> Result<Vec<ImportResult>, Status> {
    let mut results = Vec::with_capacity(chunk.len());
    for entry in chunk {
        let result = match call(&channel, &entry.record).await {
            Ok(Some(id)) => Outcome::Id(id),
            Ok(None) => Outcome::Error(stored_already()),
            Err(status) => Outcome::Error(ResultError {
                code: status.code().into(),
                message: status.message().into(),
                ..ResultError::default()
            }),
        };
        results.push(ImportResult { record: entry.number(), result: Some(result) });
    }
    Ok(results)
}

/// The error for a record that is stored already.
pub(super) fn stored_already() -> ResultError {
    ResultError {
        code: Code::AlreadyExists.into(),
        reason: Reason::IdTaken.name().into(),
        ..ResultError::default()
    }
}

/// Returns, for each sent record, whether the stored record with its id is the same. `read` reads the records
/// with some ids from the store, at least the first that exists.
pub(super) async fn same_by_id<R>(
    sent: &[&R],
    id: impl Fn(&R) -> i64,
    read: impl AsyncFn(Vec<i64>) -> Result<StoredRecords<R>, Status>,
    same: impl Fn(&R, &R) -> bool,
) -> Result<Vec<bool>, Status> {
    let mut by_id = HashMap::new();
    let mut wanted: Vec<i64> = sent.iter().map(|record| id(record)).collect();
    while !wanted.is_empty() {
        let stored = read(wanted).await?;
        by_id.extend(stored.records.into_iter().map(|record| (id(&record), record)));
        wanted = stored.left_out;
    }
    let is_stored = |sent: &&R| by_id.get(&id(sent)).is_some_and(|found| same(sent, found));
    Ok(sent.iter().map(is_stored).collect())
}

/// Requests a read from the store.
pub(super) const fn strong() -> Option<Consistency> {
    Some(Consistency { level: Some(Level::Strong(true)) })
}

/// Makes a request with the longest deadline that a node permits.
pub(super) fn with_long_deadline<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(std::time::Duration::from_secs(10));
    request
}

/// Formats a time as proto3 JSON does, in RFC 3339.
pub(super) fn rfc3339(time: Option<prost_types::Timestamp>) -> Option<String> {
    let time = std::time::SystemTime::try_from(time?).ok()?;
    Some(humantime::format_rfc3339_millis(time).to_string())
}

/// Returns whether a value is the default, which proto3 JSON leaves out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
