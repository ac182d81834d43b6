//! Changes and records in memory.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_forward::{Change, ChangeRecord, ChangeSource, Page, SourceError};
use parking_lot::Mutex;
use serde_json::{Map, value::RawValue};

/// A log of changes. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct MemorySource(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    changes: Vec<Change>,
    /// The JSON of each record.
    records: HashMap<String, String>,
    /// Errors for the next calls.
    errors: Vec<SourceError>,
    /// The record that no call returns.
    broken: Option<String>,
    /// The number of changes up to the end of the last page.
    read: usize,
    /// The number of changes after which the source does not answer.
    answers_to: Option<usize>,
}

impl MemorySource {
    /// A source with a change of each of these records; a record holds the number of its changes.
    pub(crate) fn with(records: impl IntoIterator<Item = impl ToString>) -> Self {
        let source = Self::default();
        records.into_iter().for_each(|record| source.change(&record.to_string()));
        source
    }

    pub(crate) fn change(&self, record: &str) {
        let mut log = self.0.lock();
        let version = log.changes.iter().filter(|change| change.record == record).count() + 1;
        log.records.insert(record.to_owned(), version.to_string());
        self.push(&mut log, record);
    }

    pub(crate) fn remove(&self, record: &str) {
        let mut log = self.0.lock();
        log.records.remove(record);
        self.push(&mut log, record);
    }

    pub(crate) fn fail_next(&self, errors: impl IntoIterator<Item = SourceError>) {
        self.0.lock().errors.extend(errors);
    }

    pub(crate) fn break_record(&self, record: &str) {
        self.0.lock().broken = Some(record.to_owned());
    }

    /// Does not answer after this number of changes.
    pub(crate) fn answer_to(&self, changes: usize) {
        self.0.lock().answers_to = Some(changes);
    }

    /// How many changes are read.
    pub(crate) fn read(&self) -> usize {
        self.0.lock().read
    }

    fn push(&self, log: &mut Log, record: &str) {
        let key = Map::from_iter([("userId".to_owned(), record.into())]);
        let (position, record) = (format!("1.a.{}.0", log.changes.len()), record.to_owned());
        log.changes.push(Change { position, kind: "user".to_owned(), lane: record.clone(), record, key });
    }

    fn next_error(&self) -> Result<(), SourceError> {
        self.0.lock().errors.pop().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl ChangeSource for MemorySource {
    async fn page(&self, cursor: &str, limit: usize) -> Result<Page, SourceError> {
        self.next_error()?;
        let mut log = self.0.lock();
        let from: usize = cursor.parse().unwrap();
        if log.answers_to.is_some_and(|to| from >= to) {
            return Err(SourceError::Away("the node does not answer".to_owned()));
        }
        let changes: Vec<_> = log.changes[from..].iter().take(limit).cloned().collect();
        let to = from + changes.len();
        log.read = to;
        let wait = if to == log.changes.len() { Duration::from_millis(5) } else { Duration::ZERO };
        Ok(Page { changes, cursor: to.to_string(), wait })
    }

    async fn record(&self, change: &Change) -> Result<ChangeRecord, SourceError> {
        let log = self.0.lock();
        if log.broken.as_ref() == Some(&change.record) {
            return Err(SourceError::Failed("the node answers Internal".to_owned()));
        }
        let record = log.records.get(&change.record);
        Ok(record.map_or(ChangeRecord::Removed, |text| {
            ChangeRecord::Present(RawValue::from_string(text.clone()).unwrap())
        }))
    }
}
