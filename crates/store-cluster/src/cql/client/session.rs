//! The client: connects, and runs statements.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kith_store::{Outcome, StoreError};
use parking_lot::RwLock;
use scylla::{
    client::{execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder},
    response::query_result::{QueryResult, QueryRowsResult},
    statement::{
        Consistency, SerialConsistency,
        batch::{Batch, BatchType},
        prepared::PreparedStatement,
    },
    value::CqlValue,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    error::{is_refused, malformed, not_connected, out_of_time, prepare_failed, read_failed},
    options::CqlOptions,
    partition_locks::PartitionLocks,
    retry::Attempts,
    row::NamedRow,
    version_clock::VersionClock,
};
use crate::reachability::Reachability;

/// Reads in one call that run at a time.
pub(in crate::cql) const AT_A_TIME: usize = 64;
const RECONNECT: Duration = Duration::from_millis(500);

/// A statement's kind, which decides its consistency and whether it may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::cql) enum StatementKind {
    /// Reads at quorum.
    Read,
    /// Reads, and first completes conditional writes in progress.
    Serial,
    /// Writes without a condition, and may be retried.
    Plain,
    /// Writes under a condition; is not idempotent.
    Conditional,
}

/// A statement; `%k` is replaced by the keyspace.
#[derive(Debug)]
pub(in crate::cql) struct Statement {
    pub(in crate::cql) kind: StatementKind,
    pub(in crate::cql) text: &'static str,
}

impl Statement {
    pub(in crate::cql) const fn read(text: &'static str) -> Self {
        Self { kind: StatementKind::Read, text }
    }

    pub(in crate::cql) const fn serial(text: &'static str) -> Self {
        Self { kind: StatementKind::Serial, text }
    }

    pub(in crate::cql) const fn plain(text: &'static str) -> Self {
        Self { kind: StatementKind::Plain, text }
    }

    pub(in crate::cql) const fn conditional(text: &'static str) -> Self {
        Self { kind: StatementKind::Conditional, text }
    }
}

/// A statement's values.
pub(in crate::cql) type Values = Vec<Option<CqlValue>>;
/// A statement with its values.
#[derive(Clone, Debug)]
pub(in crate::cql) struct Bound(pub(in crate::cql) &'static Statement, pub(in crate::cql) Values);

/// Converts a value to its column's type.
pub(in crate::cql) trait IntoValue {
    fn into_value(self) -> Option<CqlValue>;
}

impl IntoValue for i64 {
    fn into_value(self) -> Option<CqlValue> {
        Some(CqlValue::BigInt(self))
    }
}

impl IntoValue for i32 {
    fn into_value(self) -> Option<CqlValue> {
        Some(CqlValue::Int(self))
    }
}

impl IntoValue for bool {
    fn into_value(self) -> Option<CqlValue> {
        Some(CqlValue::Int(i32::from(self)))
    }
}

impl IntoValue for Vec<i64> {
    fn into_value(self) -> Option<CqlValue> {
        Some(CqlValue::List(self.into_iter().map(CqlValue::BigInt).collect()))
    }
}

impl IntoValue for String {
    fn into_value(self) -> Option<CqlValue> {
        Some(CqlValue::Text(self))
    }
}

impl<const N: usize> IntoValue for [u8; N] {
    fn into_value(self) -> Option<CqlValue> {
        Some(CqlValue::Blob(self.to_vec()))
    }
}

impl<const N: usize> IntoValue for Vec<[u8; N]> {
    fn into_value(self) -> Option<CqlValue> {
        Some(CqlValue::List(self.into_iter().map(|bytes| CqlValue::Blob(bytes.to_vec())).collect()))
    }
}

impl IntoValue for &[u8] {
    fn into_value(self) -> Option<CqlValue> {
        Some(CqlValue::Blob(self.to_vec()))
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Option<CqlValue> {
        self.and_then(T::into_value)
    }
}

/// A statement's values, in the order of its `?`.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::cql::client::session::IntoValue::into_value($value)),*] };
}
pub(in crate::cql) use values;

/// The connection to the servers, and the state that statements share.
pub(crate) struct Client {
    pub(in crate::cql) options: CqlOptions,
    pub(in crate::cql) clock: VersionClock,
    pub(in crate::cql) locks: PartitionLocks,
    session: OnceLock<Session>,
    refused: AtomicBool,
    closing: AtomicBool,
    /// Keyed by kind and text, because a read and a serial read with the same text differ in consistency.
    prepared: RwLock<HashMap<(StatementKind, &'static str), PreparedStatement>>,
    pub(in crate::cql) reachability: Reachability,
    permits: Semaphore,
}

impl Client {
    /// Begins to connect, without a time limit; `None` if the options cannot be used.
    pub(in crate::cql) fn open(options: CqlOptions) -> Option<Arc<Self>> {
        if !options.are_usable() {
            return None;
        }
        let client = Arc::new(Self {
            clock: VersionClock::new(options.clock_ahead),
            locks: PartitionLocks::default(),
            session: OnceLock::new(),
            refused: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            prepared: RwLock::default(),
            reachability: Reachability::default(),
            permits: Semaphore::new(options.calls()),
            options,
        });
        tokio::spawn(connect(Arc::downgrade(&client)));
        Some(client)
    }

    /// Admits a call for as long as the permit is held. Refuses it at once if too many run, or if the servers
    /// are known not to answer.
    pub(in crate::cql) fn admit(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        if self.reachability.is_unreachable() {
            return Err(not_connected());
        }
        self.permits.try_acquire().map_err(|_| StoreError::Overloaded)
    }

    pub(in crate::cql) fn session(&self) -> Result<&Session, StoreError> {
        self.session.get().ok_or_else(not_connected)
    }

    /// Waits for the first connection, for at most `limit`.
    pub(in crate::cql) async fn connected(&self, limit: Duration) -> Result<&Session, StoreError> {
        let give_up = tokio::time::Instant::now() + limit;
        while self.session.get().is_none() {
            if tokio::time::Instant::now() >= give_up {
                return Err(out_of_time(Outcome::NotApplied));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.session()
    }

    /// Whether the servers refuse the user or the password.
    pub(in crate::cql) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Asks the background work to end.
    pub(in crate::cql) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    pub(in crate::cql) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Replaces `%k` by the keyspace's name.
    pub(in crate::cql) fn text(&self, text: &str) -> String {
        text.replace("%k", &self.options.keyspace)
    }

    /// Runs a read statement.
    pub(in crate::cql) async fn read(
        &self,
        statement: &'static Statement,
        values: Values,
    ) -> Result<QueryRowsResult, StoreError> {
        let prepared = self.prepared(statement).await?;
        let answer = self.session()?.execute_unpaged(&prepared, values).await;
        let answer = answer.map_err(|error| read_failed(&error))?;
        answer.into_rows_result().map_err(|_| malformed("rows"))
    }

    /// Runs a read, and returns its rows with columns by name.
    pub(in crate::cql) async fn records(
        &self,
        statement: &'static Statement,
        values: Values,
    ) -> Result<Vec<NamedRow>, StoreError> {
        NamedRow::all(&self.read(statement, values).await?)
    }

    /// Runs a write. `None`: the driver or the statement sets the timestamp.
    pub(in crate::cql) async fn write(
        &self,
        Bound(statement, values): Bound,
        timestamp: Option<i64>,
    ) -> Result<(), StoreError> {
        let mut prepared = self.prepared(statement).await?;
        prepared.set_timestamp(timestamp);
        self.send(prepared, values).await.map(drop)
    }

    /// Writes all parts, or none if it fails. A failed unlogged batch may have written some parts.
    /// `timestamp`: `None` if each part has its own.
    pub(in crate::cql) async fn batch(
        &self,
        kind: BatchType,
        parts: Vec<Bound>,
        timestamp: impl Into<Option<i64>>,
    ) -> Result<(), StoreError> {
        let mut batch = self.configured(Batch::new(kind));
        batch.set_timestamp(timestamp.into());
        batch.set_is_idempotent(true);
        self.run(batch, parts).await.map(drop)
    }

    /// Writes all parts if the conditions hold. Returns `None` if it did, else the refusal's first row, whose
    /// columns depend on the server.
    pub(in crate::cql) async fn write_if(&self, parts: Vec<Bound>) -> Result<Option<NamedRow>, StoreError> {
        let answer = match <[Bound; 1]>::try_from(parts) {
            Ok([Bound(statement, values)]) => self.send(self.prepared(statement).await?, values).await?,
            Err(parts) => self.run(self.configured(Batch::new(BatchType::Unlogged)), parts).await?,
        };
        let rows = answer.into_rows_result().map_err(|_| malformed("[applied]"))?;
        let first = NamedRow::all(&rows)?.into_iter().next().ok_or_else(|| malformed("[applied]"))?;
        if first.applied()? { Ok(None) } else { Ok(Some(first)) }
    }

    /// Sends one write.
    async fn send(
        &self,
        mut statement: PreparedStatement,
        values: Values,
    ) -> Result<QueryResult, StoreError> {
        let attempts = Attempts::default();
        statement.set_retry_policy(Some(Arc::new(attempts.clone())));
        let answer = self.session()?.execute_unpaged(&statement, values).await;
        answer.map_err(|error| attempts.failed(&error))
    }

    /// Sends a batch that writes.
    async fn run(&self, mut batch: Batch, parts: Vec<Bound>) -> Result<QueryResult, StoreError> {
        let attempts = Attempts::default();
        batch.set_retry_policy(Some(Arc::new(attempts.clone())));
        let mut bound = Vec::with_capacity(parts.len());
        for Bound(statement, values) in parts {
            batch.append_statement(self.prepared(statement).await?);
            bound.push(values);
        }
        self.session()?.batch(&batch, bound).await.map_err(|error| attempts.failed(&error))
    }

    fn configured(&self, mut batch: Batch) -> Batch {
        batch.set_consistency(Consistency::LocalQuorum);
        batch.set_serial_consistency(Some(SerialConsistency::LocalSerial));
        batch.set_request_timeout(Some(self.options.request));
        batch
    }

    async fn prepared(&self, statement: &'static Statement) -> Result<PreparedStatement, StoreError> {
        let key = (statement.kind, statement.text);
        if let Some(prepared) = self.prepared.read().get(&key) {
            return Ok(prepared.clone());
        }
        let prepared = self.session()?.prepare(self.text(statement.text)).await;
        let mut prepared = prepared.map_err(|error| prepare_failed(&error))?;
        prepared.set_consistency(match statement.kind {
            StatementKind::Serial => Consistency::LocalSerial,
            StatementKind::Read | StatementKind::Plain | StatementKind::Conditional => {
                Consistency::LocalQuorum
            }
        });
        prepared.set_serial_consistency(Some(SerialConsistency::LocalSerial));
        prepared.set_is_idempotent(statement.kind != StatementKind::Conditional);
        prepared.set_request_timeout(Some(self.options.request));
        self.prepared.write().insert(key, prepared.clone());
        Ok(prepared)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("keyspace", &self.options.keyspace).finish_non_exhaustive()
    }
}

/// Tries to connect until it succeeds or the client is dropped. Afterwards the driver reconnects by itself.
async fn connect(to: Weak<Client>) {
    loop {
        let Some(options) = to.upgrade().map(|client| client.options.clone()) else { return };
        let session = build(&options).await;
        let Some(client) = to.upgrade() else { return };
        match session {
            Ok(session) => {
                client.refused.store(false, Ordering::Relaxed);
                client.session.set(session).ok();
                return;
            }
            Err(refused) => client.refused.store(refused, Ordering::Relaxed),
        }
        drop(client);
        tokio::time::sleep(RECONNECT).await;
    }
}

/// Connects once. The error: whether the user or the password was refused.
async fn build(options: &CqlOptions) -> Result<Session, bool> {
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::LocalQuorum)
        .serial_consistency(Some(SerialConsistency::LocalSerial))
        .request_timeout(Some(options.request))
        // This policy is for reads, which have no effect. Each write has its own policy, which remembers its
        // attempts.
        .retry_policy(Arc::new(Attempts::default()))
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.contact_points)
        .connection_timeout(options.connect)
        .default_execution_profile_handle(profile.into_handle())
        // Routing needs only the keyspace's replication and its tables' partition keys.
        .keyspaces_to_fetch([&options.keyspace])
        .fetch_full_schema_metadata(false);
    if let Some((user, password)) = &options.credentials {
        builder = builder.user(user, password);
    }
    builder.build().await.map_err(|error| is_refused(&error))
}
