//! The database: its options, its collections, and the handle that implements the store traits.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use kith_store::StoreError;
use mongodb::{Client, Collection, Database, bson::RawDocumentBuf, options::WriteConcern};
use tokio::{
    sync::{Mutex, Semaphore, SemaphorePermit},
    time::Instant,
};

use super::{
    error::no_ping_answer,
    message::{hints::Hints, shared_pushes::SharedPushes},
    notice::reader::ordinals::ReservedOrdinals,
};
use crate::{cql::Cql, reachability::Reachability};

/// The collection of kept changes.
pub(super) const CHANGES: &str = "changes";
/// The collection of messages.
pub(super) const MESSAGES: &str = "messages";
/// Where the applied migrations are noted.
pub(super) const MIGRATIONS: &str = "migrations";
/// The collection with the counts of reactions.
pub(super) const SUMMARIES: &str = "reaction_summaries";

/// The options for MongoDB: address, timeouts and limits.
#[derive(Clone)]
pub struct MongoOptions {
    /// Connection string. May contain a password, so it is never shown.
    pub uri: String,
    /// The database's name.
    pub database: String,
    /// The most connections to one server.
    pub pool_max: u32,
    /// The most calls that wait for a connection; further calls are refused.
    pub waiting_max: u32,
    /// How long a call waits for a primary.
    pub server_selection: Duration,
    /// How long a connection may take to be made.
    pub connect: Duration,
    /// The server's time limit for one command.
    pub command: Duration,
    /// How long the server waits for a majority to have a write; its outcome is unknown then.
    pub write_majority: Duration,
    /// How long a write that collides with others is retried.
    pub retry: Duration,
    /// How long a message append is retried while others append to the same conversation.
    pub append: Duration,
    /// How long a notice change is retried while others change the same audiences. Shorter than the limit for
    /// a write, so that a change that gives up was not applied.
    pub notices: Duration,
    /// How long a migration waits while another node migrates.
    pub migration_wait: Duration,
    /// Whether the change feed delivers appended messages, too. Without it they cost the feed nothing.
    pub appends_in_feed: bool,
}

impl MongoOptions {
    /// The defaults, for this address and database.
    #[must_use]
    pub fn new(uri: impl Into<String>, database: impl Into<String>) -> Self {
        Self { uri: uri.into(), database: database.into(), ..Self::default() }
    }
}

impl Default for MongoOptions {
    fn default() -> Self {
        Self {
            uri: "mongodb://127.0.0.1:27017/?replicaSet=rs0".to_owned(),
            database: "kith".to_owned(),
            pool_max: 64,
            waiting_max: 4096,
            server_selection: Duration::from_millis(1_500),
            connect: Duration::from_secs(1),
            command: Duration::from_secs(5),
            write_majority: Duration::from_secs(5),
            retry: Duration::from_millis(1_500),
            append: Duration::from_secs(10),
            notices: Duration::from_secs(8),
            migration_wait: Duration::from_secs(300),
            appends_in_feed: false,
        }
    }
}

impl fmt::Debug for MongoOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoOptions").field("database", &self.database).finish_non_exhaustive()
    }
}

/// Implements every store trait; each file in this folder holds a trait.
pub(super) struct Mongo {
    pub(super) client: Client,
    pub(super) database: Database,
    pub(super) users: Collection<RawDocumentBuf>,
    pub(super) groups: Collection<RawDocumentBuf>,
    pub(super) dialogs: Collection<RawDocumentBuf>,
    pub(super) conversations: Collection<RawDocumentBuf>,
    pub(super) erasures: Collection<RawDocumentBuf>,
    pub(super) fan_out_notes: Collection<RawDocumentBuf>,
    pub(super) changes: Collection<RawDocumentBuf>,
    pub(super) sequences: Collection<RawDocumentBuf>,
    pub(super) audiences: Collection<RawDocumentBuf>,
    pub(super) notices: Collection<RawDocumentBuf>,
    pub(super) notice_readers: Collection<RawDocumentBuf>,
    pub(super) reader_counters: Collection<RawDocumentBuf>,
    pub(super) secrets: Collection<RawDocumentBuf>,
    pub(super) requests: Collection<RawDocumentBuf>,
    pub(super) node: Collection<RawDocumentBuf>,
    pub(super) migrations: Collection<RawDocumentBuf>,
    pub(super) leases: Collection<RawDocumentBuf>,
    pub(super) messages: Collection<RawDocumentBuf>,
    pub(super) reactions: Collection<RawDocumentBuf>,
    pub(super) reaction_summaries: Collection<RawDocumentBuf>,
    /// The known tails of conversations.
    pub(super) hints: Hints,
    /// Messages that wait for a command.
    pub(super) pushes: SharedPushes,
    /// Reserved ordinals for readers.
    pub(super) ordinals: ReservedOrdinals,
    /// Notice changes on this node are serial: most have audiences in common, and would collide.
    pub(super) notice_lock: Mutex<()>,
    pub(super) options: MongoOptions,
    /// Has a part in migrations.
    pub(super) relations: OnceLock<Arc<Cql>>,
    pub(super) reachability: Reachability,
    /// When the epoch was asked for that was read last.
    pub(super) epoch_read: parking_lot::Mutex<Option<Instant>>,
    permits: Semaphore,
}

impl Mongo {
    pub(super) fn new(client: Client, options: MongoOptions) -> Self {
        let database = client.database(&options.database);
        let calls = u64::from(options.pool_max.max(1)) + u64::from(options.waiting_max);
        let calls = usize::try_from(calls).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        Self {
            users: database.collection("users"),
            groups: database.collection("groups"),
            dialogs: database.collection("dialogs"),
            conversations: database.collection("conversations"),
            erasures: database.collection("erasures"),
            fan_out_notes: database.collection("fan_out_notes"),
            changes: database.collection(CHANGES),
            sequences: database.collection("sequences"),
            audiences: database.collection("audiences"),
            notices: database.collection("notices"),
            notice_readers: database.collection("notice_readers"),
            reader_counters: database.collection("reader_counters"),
            secrets: database.collection("secrets"),
            requests: database.collection("requests"),
            node: database.collection("node"),
            migrations: database.collection(MIGRATIONS),
            leases: database.collection("leases"),
            messages: database.collection(MESSAGES),
            reactions: database.collection("reactions"),
            reaction_summaries: database.collection(SUMMARIES),
            hints: Hints::default(),
            pushes: SharedPushes::new(&database, MESSAGES, options.command, options.write_majority),
            ordinals: ReservedOrdinals::default(),
            notice_lock: Mutex::default(),
            relations: OnceLock::new(),
            reachability: Reachability::default(),
            epoch_read: parking_lot::Mutex::default(),
            permits: Semaphore::new(calls),
            client,
            database,
            options,
        }
    }

    /// Admits a call, or refuses it at once: if the server is known not to answer, or if too many calls wait,
    /// because the driver's own queue for connections has no limit.
    pub(super) fn admit(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        if self.reachability.is_unreachable() {
            return Err(no_ping_answer());
        }
        self.permits.try_acquire().map_err(|_| StoreError::Overloaded)
    }
}

impl fmt::Debug for Mongo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mongo").field("database", &self.options.database).finish_non_exhaustive()
    }
}

/// A journaled majority.
pub(super) fn durable(limit: Duration) -> WriteConcern {
    let mut concern = WriteConcern::majority();
    concern.journal = Some(true);
    concern.w_timeout = Some(limit);
    concern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_do_not_show_the_connection_string() {
        let shown = format!("{:?}", MongoOptions::new("mongodb://ann:sesame@host/", "kith"));
        assert!(!shown.contains("sesame") && !shown.contains("host"), "{shown}");
    }
}
