//! The connection, and the handle for the stores.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use kith_store::{Coordination, NamedFeed, RelationStores, Stores};
use mongodb::{
    Client,
    error::ErrorKind,
    options::{ClientOptions, ReadConcern, ReadPreference, SelectionCriteria},
};

use super::{
    coordination::Leases,
    database::{Mongo, MongoOptions, durable},
    feed::DocumentFeed,
    probe::Probe,
};
use crate::cql::{Cql, CqlOptions, CqlProbe, NoRelations};

/// The driver's heartbeat period for each server. Connections to a server that has not answered for this time
/// and [`MongoOptions::connect`] are given up, with the commands that wait on them: the driver has no other
/// timeout for these.
const HEARTBEAT: Duration = Duration::from_secs(1);

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

/// The database that a connection string names after its hosts, if it is not the used database. `admin` names
/// the user's database, and is accepted.
fn other_database(named: Option<&str>, used: &str) -> Option<String> {
    named.filter(|named| *named != used && *named != "admin" && names_a_database(named)).map(str::to_owned)
}

fn names_a_database(name: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use kith_store::StoreError;

    use super::*;

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
