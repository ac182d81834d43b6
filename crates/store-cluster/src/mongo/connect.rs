//! Options, connection, and the handle for the stores.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use kith_store::{Coordination, NamedFeed, RelationStores, StoreError, Stores, millis};
use mongodb::{
    Client, Collection, Database,
    bson::{Document, RawDocumentBuf, doc},
    error::ErrorKind,
    options::{ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern},
};
use tokio::{
    sync::{Mutex, Semaphore, SemaphorePermit},
    time::Instant,
};

use super::{
    changes::CHANGES,
    coordination::Leases,
    error::no_ping_answer,
    feed::DocumentFeed,
    message::{Hints, MESSAGES},
    migrate::MIGRATIONS,
    notice_reader::ReservedOrdinals,
    probe::Probe,
    reaction::SUMMARIES,
};
use crate::{
    cql::{Cql, CqlOptions, CqlProbe, NoRelations},
    reachability::Reachability,
};

/// The driver's heartbeat period for each server. Connections to a server that has not answered for this time
/// and [`MongoOptions::connect`] are given up, with the commands that wait on them: the driver has no other
/// timeout for these.
const HEARTBEAT: Duration = Duration::from_secs(1);

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

/// Why a store's options cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The connection string cannot be read.
    #[error("the MongoDB connection string cannot be used")]
    Address,
    /// The servers in a `mongodb+srv` connection string cannot be looked up.
    #[error("the servers of the MongoDB connection string cannot be looked up")]
    Lookup,
    /// The connection string names another database than the options.
    #[error("the MongoDB connection string names the database {0}")]
    OtherDatabase(String),
    /// The name is not valid for a MongoDB database.
    #[error("the name of the MongoDB database cannot be used")]
    Database,
    /// The relation store's options: no contact point, an invalid name, or an invalid replication.
    #[error("the options of the store of relations cannot be used")]
    Relations,
}

/// Prepares the connection to MongoDB. Neither connects nor migrates: a server that is unavailable now is
/// found as soon as it is available, and [`NodeStore::ping`](kith_store::NodeStore::ping) shows it.
///
/// # Errors
/// Fails if the options cannot be used, regardless of the server.
pub async fn connect(options: MongoOptions) -> Result<ClusterHandle, OpenError> {
    if !names_a_database(&options.database) {
        return Err(OpenError::Database);
    }
    let driver = driver_options(&options).await?;
    ClusterHandle::over(driver, options)
}

/// The driver's options, whatever the connection string contains: read from the primary what a majority has,
/// and write to a journaled majority.
pub(super) async fn driver_options(options: &MongoOptions) -> Result<ClientOptions, OpenError> {
    // The driver's errors about a connection string may repeat it, so they are dropped.
    let mut driver = ClientOptions::parse(&options.uri).await.map_err(|error| match &*error.kind {
        ErrorKind::DnsResolve { .. } => OpenError::Lookup,
        _ => OpenError::Address,
    })?;
    if let Some(other) = other_database(driver.default_database.as_deref(), &options.database) {
        return Err(OpenError::OtherDatabase(other));
    }
    driver.max_pool_size = Some(options.pool_max.max(1));
    driver.server_selection_timeout = Some(options.server_selection);
    driver.connect_timeout = Some(options.connect);
    driver.heartbeat_freq = Some(HEARTBEAT);
    driver.retry_writes = Some(true);
    driver.retry_reads = Some(true);
    driver.read_concern = Some(ReadConcern::majority());
    driver.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    driver.write_concern = Some(durable(options.write_majority));
    Ok(driver)
}

/// A cluster's stores, and the connections under them.
#[derive(Debug)]
pub struct ClusterHandle {
    pub(super) mongo: Arc<Mongo>,
    leases: Arc<Leases>,
    cql: Option<Arc<Cql>>,
    probe: Probe,
}

impl ClusterHandle {
    pub(super) fn over(driver: ClientOptions, options: MongoOptions) -> Result<Self, OpenError> {
        let probe = Probe::new(&driver, &options.database, options.connect);
        let client = Client::with_options(driver).map_err(|_| OpenError::Address)?;
        let mongo = Arc::new(Mongo::new(client, options));
        Ok(Self { leases: Arc::new(Leases::new(&mongo)), mongo, cql: None, probe })
    }

    /// Creates it with a relation store, or without, which makes relations unavailable. Begins to connect,
    /// and to count changes; a server that is unavailable now is used as soon as it answers.
    ///
    /// # Errors
    /// Fails if the options cannot be used, regardless of the server.
    pub fn with_relations(mut self, options: CqlOptions) -> Result<Self, OpenError> {
        let cql = self.add_relations(options)?;
        let coordination: Weak<dyn Coordination> = Arc::<Leases>::downgrade(&self.leases);
        cql.sweep(&coordination);
        Ok(self)
    }

    /// Like [`Self::with_relations`], but begins no work on what is stored: for backups and restores.
    ///
    /// # Errors
    /// Fails if the options cannot be used, regardless of the server.
    pub fn with_idle_relations(mut self, options: CqlOptions) -> Result<Self, OpenError> {
        self.add_relations(options)?;
        Ok(self)
    }

    fn add_relations(&mut self, options: CqlOptions) -> Result<Arc<Cql>, OpenError> {
        let cql = Cql::open(options).ok_or(OpenError::Relations)?;
        self.mongo.relations.set(Arc::clone(&cql)).map_err(|_| OpenError::Relations)?;
        cql.set_log_ends(Arc::<Mongo>::downgrade(&self.mongo));
        self.cql = Some(Arc::clone(&cql));
        Ok(cql)
    }

    /// Reports why the relation store does not serve, if there is any.
    #[must_use]
    pub fn cql_probe(&self) -> Option<CqlProbe> {
        self.cql.as_ref().map(|cql| CqlProbe::new(&cql.client))
    }

    /// Reports why MongoDB does not serve, if it is known.
    #[must_use]
    pub fn probe(&self) -> Probe {
        self.probe.clone()
    }

    /// The stores. Clones share the connections.
    #[must_use]
    pub fn stores(&self) -> Stores {
        match &self.cql {
            Some(cql) => self.stores_over(cql),
            None => self.stores_over(&Arc::new(NoRelations)),
        }
    }

    fn stores_over<R>(&self, relations: &Arc<R>) -> Stores
    where
        R: RelationStores,
    {
        let mut feeds = vec![NamedFeed {
            name: "change_feed".to_owned(),
            feed: Arc::new(DocumentFeed::new(Arc::clone(&self.mongo))),
        }];
        feeds.extend(self.cql.iter().flat_map(Cql::feeds));
        Stores {
            follows: Arc::<R>::clone(relations),
            blocks: Arc::<R>::clone(relations),
            members: Arc::<R>::clone(relations),
            applications: Arc::<R>::clone(relations),
            relation_log: Arc::<R>::clone(relations),
            edges: Arc::<R>::clone(relations),
            users: Arc::<Mongo>::clone(&self.mongo),
            accesses: Arc::<Mongo>::clone(&self.mongo),
            groups: Arc::<Mongo>::clone(&self.mongo),
            dialogs: Arc::<Mongo>::clone(&self.mongo),
            conversations: Arc::<Mongo>::clone(&self.mongo),
            erasures: Arc::<Mongo>::clone(&self.mongo),
            reactions: Arc::<Mongo>::clone(&self.mongo),
            message_upkeep: Arc::<Mongo>::clone(&self.mongo),
            sequences: Arc::<Mongo>::clone(&self.mongo),
            notices: Arc::<Mongo>::clone(&self.mongo),
            notice_readers: Arc::<Mongo>::clone(&self.mongo),
            messages: Arc::<Mongo>::clone(&self.mongo),
            strong: Arc::<Mongo>::clone(&self.mongo),
            secrets: Arc::<Mongo>::clone(&self.mongo),
            node: Arc::<Mongo>::clone(&self.mongo),
            migrations: Arc::<Mongo>::clone(&self.mongo),
            coordination: Arc::<Leases>::clone(&self.leases),
            fan_out_notes: Some(Arc::<Mongo>::clone(&self.mongo)),
            changes: Arc::<Mongo>::clone(&self.mongo),
            changes_writer: Some(Arc::<Mongo>::clone(&self.mongo)),
            feeds,
        }
    }

    /// Closes the connections. Calls that still run fail; later ones too.
    pub async fn close(self) {
        if let Some(cql) = &self.cql {
            cql.close();
        }
        self.mongo.client.clone().shutdown().immediate(true).await;
    }
}

/// A journaled majority.
pub(super) fn durable(limit: Duration) -> WriteConcern {
    let mut concern = WriteConcern::majority();
    concern.journal = Some(true);
    concern.w_timeout = Some(limit);
    concern
}

/// Like [`durable`], but for a command that names its own write concern.
pub(super) fn durable_document(limit: Duration) -> Document {
    doc! { "w": "majority", "j": true, "wtimeout": millis(limit) }
}

/// The database that a connection string names after its hosts, if it is not the used database. `admin` names
/// the user's database, and is accepted.
fn other_database(named: Option<&str>, used: &str) -> Option<String> {
    named.filter(|named| *named != used && *named != "admin" && names_a_database(named)).map(str::to_owned)
}

fn names_a_database(name: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(allowed)
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
    fn new(client: Client, options: MongoOptions) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_do_not_show_the_connection_string() {
        let shown = format!("{:?}", MongoOptions::new("mongodb://ann:sesame@host/", "kith"));
        assert!(!shown.contains("sesame") && !shown.contains("host"), "{shown}");
    }

    #[tokio::test]
    async fn invalid_connection_string_is_not_repeated() {
        let error = connect(MongoOptions::new("mongodb://ann:sesame@host:port/", "kith")).await.unwrap_err();
        assert!(matches!(error, OpenError::Address));
        assert!(!format!("{error} {error:?}").contains("sesame"));
    }

    #[tokio::test]
    async fn database_of_uri_is_not_ignored() {
        let open = async |path: &str| {
            let uri = format!("mongodb://ann:sesame@127.0.0.1/{path}");
            connect(MongoOptions::new(uri, "kith")).await.map(drop)
        };
        assert!(matches!(open("shop").await, Err(OpenError::OtherDatabase(named)) if named == "shop"));
        for path in ["", "kith", "admin", "?authSource=shop"] {
            assert!(open(path).await.is_ok(), "{path}");
        }
    }

    #[tokio::test]
    async fn a_name_that_is_none_for_a_database_is_refused() {
        for name in ["", "a.b", "a b", "a/b", "$a"] {
            let error = connect(MongoOptions::new("mongodb://127.0.0.1/", name)).await.unwrap_err();
            assert!(matches!(error, OpenError::Database), "{name}");
        }
    }

    #[tokio::test]
    async fn more_calls_than_may_wait_are_refused_at_once() {
        let few = MongoOptions { pool_max: 1, waiting_max: 1, ..MongoOptions::default() };
        let mongo = connect(few).await.unwrap().mongo;
        let _permits = (mongo.admit().unwrap(), mongo.admit().unwrap());
        assert!(matches!(mongo.admit(), Err(StoreError::Overloaded)));
    }
}
