//! The kinds of records of imports and exports: their JSON form and their calls.

use std::{collections::HashMap, marker::PhantomData};

use crate::client::Channel;
use futures::stream::BoxStream;
use kith_proto::r#type::v1::{Consistency, ImportResult, ResultError, consistency::Level};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status};

use kith_service::error::Reason;

/// Messages of a stream, until its first error.
pub(super) type MessageStream<T> = BoxStream<'static, Result<T, Status>>;

/// A record of an import.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry<R> {
    /// Of the file, from 1.
    pub(super) line: u64,
    /// Distinguishes a repeated record from a new one.
    pub(super) request_id: String,
    /// The record of the line.
    pub(super) record: R,
}

/// The stored records on a node.
#[derive(Debug)]
pub(super) struct Standing<R> {
    /// Those that exist.
    pub(super) records: Vec<R>,
    /// Ids that the answer had no room for.
    left_out: Vec<i64>,
}

impl<R> Default for Standing<R> {
    fn default() -> Self {
        Self { records: Vec::new(), left_out: Vec::new() }
    }
}

impl<R> Standing<R> {
    /// Takes the error of one id.
    ///
    /// # Errors
    /// When the id cannot be read by asking again with fewer.
    pub(super) fn fail(&mut self, id: i64, error: ResultError) -> Result<(), Status> {
        if error.reason != Reason::AnswerTooLarge.name() {
            return Err(Status::new(Code::from(error.code), error.message));
        }
        self.left_out.push(id);
        Ok(())
    }
}

/// A kind of record that can be imported.
pub(super) trait Import {
    /// The message type.
    type Record: prost::Message + Clone + Default + PartialEq + 'static;

    /// The format of a file, from its beginning.
    type Format;

    /// Examines the beginning of a file.
    ///
    /// # Errors
    /// Why its lines contain no records; a text that follows its name.
    fn format(beginning: &[u8]) -> Result<Self::Format, String>;

    /// Reads a record from a line; `None`: a line without one, such as a comment.
    ///
    /// # Errors
    /// Why the line is invalid, without values.
    fn read_line(format: &Self::Format, line: &[u8]) -> Result<Option<Self::Record>, String>;

    /// Sends chunks of records; one answer for each chunk, in order.
    async fn import(
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<Self::Record>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status>;

    /// For each of these records, whose ids exist, whether the stored one equals the sent one.
    async fn stand(channel: Channel, records: &[&Self::Record]) -> Result<Vec<bool>, Status>;
}

/// A kind of record that has an id, with the same form for imports and exports.
pub(super) trait RecordKind {
    /// The message type.
    type Record: prost::Message + Clone + Default + PartialEq + 'static;

    /// Reads a record from a line of JSON.
    ///
    /// # Errors
    /// Why the line is invalid, without values.
    fn parse(line: &[u8]) -> Result<Self::Record, String>;

    /// As a line, without its end.
    fn line(record: &Self::Record) -> serde_json::Result<String>;

    /// The id; 0: none chosen.
    fn id(record: &Self::Record) -> i64;

    /// Whether the stored record equals the sent one.
    fn same(sent: &Self::Record, standing: &Self::Record) -> bool;

    /// As [`Import::import`].
    async fn import(
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<Self::Record>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status>;

    /// Reads the records with these ids from the store, at least the first one that exists.
    async fn read(channel: Channel, ids: Vec<i64>) -> Result<Standing<Self::Record>, Status>;

    /// Reads all records by ascending id above `after`.
    async fn export(channel: Channel, after: i64) -> Result<MessageStream<Vec<Self::Record>>, Status>;
}

/// Records that can be exported, by rising numbers.
pub(super) trait Export {
    /// The message type.
    type Record;

    /// As a line, without its end.
    fn line(record: &Self::Record) -> serde_json::Result<String>;

    /// The number by which they are ordered.
    fn number(record: &Self::Record) -> i64;

    /// Reads all records by ascending number above `after`.
    async fn export(&self, channel: Channel, after: i64) -> Result<MessageStream<Vec<Self::Record>>, Status>;
}

/// All records of a kind.
pub(super) struct All<K>(pub(super) PhantomData<K>);

impl<K: RecordKind> Export for All<K> {
    type Record = K::Record;

    fn line(record: &K::Record) -> serde_json::Result<String> {
        K::line(record)
    }

    fn number(record: &K::Record) -> i64 {
        K::id(record)
    }

    async fn export(&self, channel: Channel, after: i64) -> Result<MessageStream<Vec<K::Record>>, Status> {
        K::export(channel, after).await
    }
}

impl<K: RecordKind> Import for K {
    type Record = K::Record;
    type Format = ();

    fn format(_beginning: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn read_line((): &(), line: &[u8]) -> Result<Option<K::Record>, String> {
        K::parse(line).map(Some)
    }

    async fn import(
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<K::Record>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status> {
        K::import(channel, chunks).await
    }

    async fn stand(channel: Channel, records: &[&K::Record]) -> Result<Vec<bool>, Status> {
        let mut by_id = HashMap::new();
        let mut wanted: Vec<i64> = records.iter().map(|record| K::id(record)).collect();
        while !wanted.is_empty() {
            let standing = K::read(channel.clone(), wanted).await?;
            by_id.extend(standing.records.into_iter().map(|record| (K::id(&record), record)));
            wanted = standing.left_out;
        }
        let stands = |sent: &&K::Record| by_id.get(&K::id(sent)).is_some_and(|found| K::same(sent, found));
        Ok(records.iter().map(stands).collect())
    }
}

/// Reads from the store.
pub(super) const fn strong() -> Option<Consistency> {
    Some(Consistency { level: Some(Level::Strong(true)) })
}

/// A request with the longest deadline that a node permits.
pub(super) fn patient<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(std::time::Duration::from_secs(10));
    request
}

/// A time in the form of proto3 JSON.
pub(super) fn moment(time: Option<prost_types::Timestamp>) -> Option<String> {
    let time = std::time::SystemTime::try_from(time?).ok()?;
    Some(humantime::format_rfc3339_millis(time).to_string())
}

/// Leaves out default values, as proto3 JSON does.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
