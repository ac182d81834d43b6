//! The store that the configuration names.

use kith_store::{StoreError, Stores};
#[cfg(feature = "cluster")]
use kith_store_cluster::{ClusterHandle, MongoOptions};
#[cfg(feature = "embedded")]
use kith_store_sqlite::{SqliteHandle, SqliteOptions};

use crate::{
    config::{Backend, Config, Synchronous},
    start::StartError,
};

/// The file of an embedded node, within its data folder.
pub(crate) const FILE: &str = "kith.db";

/// An open store, to be closed when the node ends.
#[derive(Debug)]
pub(crate) enum Opened {
    #[cfg(feature = "embedded")]
    Sqlite(SqliteHandle),
    #[cfg(feature = "cluster")]
    Cluster(ClusterHandle),
}

impl Opened {
    /// Opens the store without migrating it. That of a cluster may be away.
    pub(crate) async fn open(config: &Config) -> Result<Self, StartError> {
        match config.store.backend {
            Backend::Sqlite => sqlite(config).await,
            Backend::Cluster => cluster(config).await,
        }
    }

    pub(crate) fn stores(&self) -> Stores {
        match self {
            #[cfg(feature = "embedded")]
            Self::Sqlite(handle) => handle.stores(),
            #[cfg(feature = "cluster")]
            Self::Cluster(handle) => handle.stores(),
        }
    }

    /// Whether it takes transactions as it must: always for SQLite; not for a MongoDB server by itself.
    pub(crate) async fn takes_transactions(&self) -> Result<bool, StoreError> {
        match self {
            #[cfg(feature = "embedded")]
            Self::Sqlite(_) => Ok(true),
            #[cfg(feature = "cluster")]
            Self::Cluster(handle) => handle.is_replicated().await,
        }
    }

    /// Finishes what is queued and lets the data go.
    pub(crate) async fn close(self) {
        match self {
            #[cfg(feature = "embedded")]
            Self::Sqlite(handle) => handle.close().await,
            #[cfg(feature = "cluster")]
            Self::Cluster(handle) => handle.close().await,
        }
    }
}

/// Where the data lie, for people.
pub(crate) fn place(config: &Config) -> String {
    match config.store.backend {
        Backend::Sqlite => config.data_dir.join(FILE).display().to_string(),
        Backend::Cluster => format!("MongoDB database {}", config.store.mongodb.database),
    }
}

/// Why a node without its store does not start.
pub(crate) fn unusable(config: &Config, error: &StoreError) -> StartError {
    let place = place(config);
    StartError::new(match error {
        StoreError::Unavailable { .. } => {
            format!("{place}: the store does not answer; is it running, and is its address right?")
        }
        StoreError::Corrupt { .. } => {
            format!(
                "{place}: what is stored cannot be read; it was written by a newer version of kith, or is damaged"
            )
        }
        other => format!("{place}: {other}"),
    })
}

#[cfg(feature = "embedded")]
async fn sqlite(config: &Config) -> Result<Opened, StartError> {
    let options = SqliteOptions {
        readers: config.store.sqlite.readers,
        queue: config.store.sqlite.queue,
        synchronous_full: config.store.sqlite.synchronous == Synchronous::Full,
        ..SqliteOptions::new(config.data_dir.join(FILE))
    };
    match kith_store_sqlite::open(options).await {
        Ok(handle) => Ok(Opened::Sqlite(handle)),
        Err(error) => Err(StartError::new(error.to_string())),
    }
}

#[cfg(not(feature = "embedded"))]
async fn sqlite(_config: &Config) -> Result<Opened, StartError> {
    Err(StartError::new("store.backend is \"sqlite\", which this build of kith does not hold"))
}

#[cfg(feature = "cluster")]
async fn cluster(config: &Config) -> Result<Opened, StartError> {
    let mongodb = &config.store.mongodb;
    let uri = mongodb.uri.as_ref().map_or("", |uri| uri.expose());
    let options = MongoOptions {
        pool_max: mongodb.pool_max,
        server_selection: mongodb.server_selection,
        connect: mongodb.connect,
        ..MongoOptions::new(uri, mongodb.database.as_str())
    };
    match kith_store_cluster::connect(options).await {
        Ok(handle) => Ok(Opened::Cluster(handle)),
        Err(error) => Err(StartError::new(format!("store.mongodb: {error}"))),
    }
}

#[cfg(not(feature = "cluster"))]
async fn cluster(_config: &Config) -> Result<Opened, StartError> {
    Err(StartError::new("store.backend is \"cluster\", which this build of kith does not hold"))
}
