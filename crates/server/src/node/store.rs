//! The store that the configuration names.

use std::path::PathBuf;

use kith_store::{Migration, Stores};
#[cfg(feature = "cluster")]
use kith_store_cluster::{ClusterHandle, CqlOptions, MongoOptions};
#[cfg(feature = "embedded")]
use kith_store_sqlite::{OpenError, SqliteHandle, SqliteOptions};

pub(crate) use super::store_info::{DataLocation, RelationsUnfit, StoreFailure, StoreInfo, StoreObstacle};

#[cfg(feature = "embedded")]
use crate::{config::Synchronous, node::ephemeral};
use crate::{
    config::{Backend, Config},
    start_error::StartError,
};

/// An embedded node's file in its data folder.
const FILE: &str = "kith.db";

/// What an open store does by itself.
#[derive(Clone, Copy)]
enum BackgroundWork {
    None,
    /// Counts lists, and completes what other nodes left.
    Sweep,
}

/// An open store, which must be closed when the node ends.
#[derive(Debug)]
pub enum OpenStore {
    /// An embedded node's file.
    #[cfg(feature = "embedded")]
    Sqlite(SqliteHandle),
    /// A cluster's databases.
    #[cfg(feature = "cluster")]
    Cluster(ClusterHandle),
}

impl OpenStore {
    /// Opens the store without migrating it. A cluster's store may be unavailable.
    ///
    /// # Errors
    /// If a file, or a cluster's configuration, cannot be used.
    pub async fn open(config: &Config) -> Result<Self, StartError> {
        match config.store.backend {
            #[cfg(feature = "embedded")]
            Backend::Sqlite if config.ephemeral.enabled => ephemeral::open(config).await.map(Self::Sqlite),
            Backend::Sqlite => sqlite(config).await,
            Backend::Cluster => cluster(config, BackgroundWork::Sweep).await,
        }
    }

    /// Opens a cluster's store like [`Self::open`], but does nothing to what is stored that is not asked for.
    ///
    /// # Errors
    /// If the configuration cannot be used.
    pub(crate) async fn open_idle(config: &Config) -> Result<Self, StartError> {
        cluster(config, BackgroundWork::None).await
    }

    /// The stores in it. Cheap.
    #[must_use]
    pub fn stores(&self) -> Stores {
        match self {
            #[cfg(feature = "embedded")]
            Self::Sqlite(handle) => handle.stores(),
            #[cfg(feature = "cluster")]
            Self::Cluster(handle) => handle.stores(),
        }
    }

    /// Completes queued writes and releases the data.
    pub async fn close(self) {
        match self {
            #[cfg(feature = "embedded")]
            Self::Sqlite(handle) => handle.close().await,
            #[cfg(feature = "cluster")]
            Self::Cluster(handle) => handle.close().await,
        }
    }

    /// The store's location, durability and probes.
    pub fn info(&self, config: &Config) -> StoreInfo {
        match self {
            #[cfg(feature = "embedded")]
            Self::Sqlite(_) if config.ephemeral.enabled => StoreInfo::memory(),
            #[cfg(feature = "embedded")]
            Self::Sqlite(handle) => StoreInfo::file(&data_file(config), handle.probe()),
            #[cfg(feature = "cluster")]
            Self::Cluster(handle) => {
                let (database, keyspace) = (&config.store.mongodb.database, &config.store.cql.keyspace);
                StoreInfo::mongodb(handle.probe(), database, handle.cql_probe(), keyspace)
            }
        }
    }
}

/// The path to an embedded node's data file.
pub fn data_file(config: &Config) -> PathBuf {
    config.data_dir.join(FILE)
}

/// The first migration that the data file still needs, read while another process may have it open.
#[cfg(feature = "embedded")]
pub(crate) async fn pending_in_file(config: &Config) -> Result<Option<Migration>, StartError> {
    let status = kith_store_sqlite::migration_status(data_file(config)).await;
    let all = status.map_err(|error| not_opened(&error))?;
    Ok(all.into_iter().find(|migration| migration.applied.is_none()))
}

#[cfg(not(feature = "embedded"))]
pub(crate) async fn pending_in_file(_config: &Config) -> Result<Option<Migration>, StartError> {
    Ok(None)
}

#[cfg(feature = "embedded")]
async fn sqlite(config: &Config) -> Result<OpenStore, StartError> {
    let options = SqliteOptions {
        readers: config.store.sqlite.readers,
        queue: config.store.sqlite.queue,
        synchronous_full: config.store.sqlite.synchronous == Synchronous::Full,
        ..SqliteOptions::new(data_file(config))
    };
    match kith_store_sqlite::open(options).await {
        Ok(handle) => Ok(OpenStore::Sqlite(handle)),
        Err(error) => Err(not_opened(&error)),
    }
}

/// The store does not know the flag that names another data folder.
#[cfg(feature = "embedded")]
fn not_opened(error: &OpenError) -> StartError {
    match error {
        OpenError::NewerSchema { .. } | OpenError::NotADatabase { .. } => StartError::new(error.to_string()),
        OpenError::Locked { .. }
        | OpenError::NotWritable { .. }
        | OpenError::WrongKind { .. }
        | OpenError::Foreign { .. }
        | OpenError::Full { .. }
        | OpenError::Other { .. } => StartError::new(format!("{error} (--data-dir)")),
    }
}

#[cfg(not(feature = "embedded"))]
async fn sqlite(_config: &Config) -> Result<OpenStore, StartError> {
    Err(StartError::new("store.backend is \"sqlite\", which this build of kith does not hold"))
}

#[cfg(feature = "cluster")]
async fn cluster(config: &Config, work: BackgroundWork) -> Result<OpenStore, StartError> {
    let mongodb = &config.store.mongodb;
    let uri = mongodb.uri.as_ref().map_or("", |uri| uri.expose());
    let options = MongoOptions {
        pool_max: mongodb.pool_max,
        server_selection: mongodb.server_selection,
        connect: mongodb.connect,
        appends_in_feed: !config.changes.kept.is_zero(),
        ..MongoOptions::new(uri, mongodb.database.as_str())
    };
    let refused = |error| StartError::new(refused_options(&error, &mongodb.database));
    let handle = kith_store_cluster::connect(options).await.map_err(refused)?;
    let handle = match (relations(config), work) {
        (Some(options), BackgroundWork::Sweep) => handle.with_relations(options).map_err(refused)?,
        (Some(options), BackgroundWork::None) => handle.with_idle_relations(options).map_err(refused)?,
        (None, _) => handle,
    };
    Ok(OpenStore::Cluster(handle))
}

/// The relation store, if there is one.
#[cfg(feature = "cluster")]
fn relations(config: &Config) -> Option<CqlOptions> {
    let cql = &config.store.cql;
    let credentials =
        cql.user.clone().zip(cql.password.as_ref().map(|password| password.expose().to_owned()));
    (!cql.contact_points.is_empty()).then(|| CqlOptions {
        replication: cql.replication.clone(),
        credentials,
        connect: cql.connect,
        request: cql.request,
        calls_max: cql.calls_max,
        feed_shards: cql.feed_shards,
        log_kept: config.relations.log_kept,
        ..CqlOptions::new(&cql.contact_points, &cql.keyspace)
    })
}

#[cfg(feature = "cluster")]
fn refused_options(error: &kith_store_cluster::OpenError, database: &str) -> String {
    let line = match error {
        kith_store_cluster::OpenError::OtherDatabase(named) => {
            return format!(
                "store.mongodb.uri names the database {named} and store.mongodb.database is {database}; write the same in \
                 both, or leave it out of the URI (authSource={named} says where the user is known)"
            );
        }
        kith_store_cluster::OpenError::Lookup => {
            "the servers of store.mongodb.uri (mongodb+srv) cannot be looked up; correct the name, or the name service"
        }
        kith_store_cluster::OpenError::Address => {
            "store.mongodb.uri cannot be used; write mongodb://HOST:27017/?replicaSet=rs0, with USER:PASSWORD@ \
             before HOST where MongoDB asks for them (special characters as %XX)"
        }
        kith_store_cluster::OpenError::Relations => {
            "store.cql cannot be used; look at its contact_points, keyspace and replication"
        }
        kith_store_cluster::OpenError::Database => {
            "store.mongodb.database cannot be used; write 1 to 63 letters, digits, _ or -"
        }
    };
    line.to_owned()
}

#[cfg(not(feature = "cluster"))]
async fn cluster(_config: &Config, _work: BackgroundWork) -> Result<OpenStore, StartError> {
    Err(StartError::new("store.backend is \"cluster\", which this build of kith does not hold"))
}
