//! Fresh databases on a real server.

#![expect(clippy::unwrap_used, reason = "tests")]

mod lent_stores;

use std::time::Duration;

use kith_store::{Edge, Stores, UserId};
use kith_store_cluster::{ClusterHandle, CqlOptions, MongoOptions, connect};
use mongodb::{Client, Database};
use scylla::client::session::Session;

use lent_stores::{LentStores, new_name};
use tokio::time::{sleep, timeout};

/// Address of a replica set that tests may fill; names the databases that they make `kith_test_...`.
#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
pub(crate) fn address() -> String {
    std::env::var("KITH_TEST_MONGODB").expect("KITH_TEST_MONGODB names a MongoDB replica set")
}

/// Address of a Cassandra or ScyllaDB that tests may fill; names the keyspaces that they make
/// `kith_test_...`.
#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
pub(crate) fn cql_address() -> String {
    std::env::var("KITH_TEST_CQL").expect("KITH_TEST_CQL names a Cassandra, as host:port")
}

/// Options for a separate keyspace.
#[allow(dead_code, reason = "not every test file has relations")]
pub(crate) fn cql_options() -> CqlOptions {
    CqlOptions { request: Duration::from_secs(10), ..CqlOptions::new([cql_address()], new_name()) }
}

/// Starts another node over the same stores.
#[allow(dead_code, reason = "not every test file has relations")]
pub(crate) async fn node(mongo: &MongoOptions, cql: &CqlOptions) -> ClusterHandle {
    connect(mongo.clone()).await.unwrap().with_relations(cql.clone()).unwrap()
}

/// Empty stores with relations, migrated, and the guard that removes database and keyspace.
#[allow(dead_code, reason = "not every test file has relations")]
pub(crate) async fn open_relations(mongo: MongoOptions, cql: CqlOptions) -> (Stores, DatabaseGuard) {
    let stores = node(&mongo, &cql).await.stores();
    stores.migrations.migrate().await.unwrap();
    (stores, DatabaseGuard { options: mongo, keyspace: Some(cql.keyspace) })
}

/// Empty stores for cases that are many and look at nothing but what they wrote.
pub(crate) async fn open_lent() -> (Stores, LentGuard) {
    let lent = LentStores::take(&address(), None).await;
    let stores = connect(MongoOptions::new(address(), &lent.database)).await.unwrap().stores();
    stores.migrations.migrate().await.unwrap();
    (stores, LentGuard(Some(lent)))
}

/// Like `open_lent`, but with relations.
pub(crate) async fn open_lent_relations() -> (Stores, LentGuard) {
    let lent = LentStores::take(&address(), Some(&cql_address())).await;
    let keyspace = lent.keyspace.clone().unwrap();
    let cql = CqlOptions { keyspace, ..cql_options() };
    let stores = node(&MongoOptions::new(address(), &lent.database), &cql).await.stores();
    stores.migrations.migrate().await.unwrap();
    until_connected(&stores).await;
    (stores, LentGuard(Some(lent)))
}

/// A migration that has nothing to do does not wait for the connection to the keyspace.
async fn until_connected(stores: &Stores) {
    let id = |number| UserId::new(number).unwrap();
    let edge = Edge { from: id(1), to: id(2) };
    let connected = async {
        while stores.follows.follows(&[edge]).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), connected).await.unwrap();
}

/// The driver's own view of a keyspace.
#[allow(dead_code, reason = "not every test file looks into the keyspace")]
pub(crate) async fn session() -> Session {
    lent_stores::session(&cql_address()).await
}

/// Options for a separate database.
pub(crate) fn options() -> MongoOptions {
    MongoOptions::new(address(), new_name())
}

/// Empty stores, migrated, and the guard that removes their database.
pub(crate) async fn open_with(options: MongoOptions) -> (Stores, DatabaseGuard) {
    let stores = connect(options.clone()).await.unwrap().stores();
    stores.migrations.migrate().await.unwrap();
    (stores, DatabaseGuard { options, keyspace: None })
}

/// The driver's own view of a database.
#[allow(dead_code, reason = "not every test file looks into the database")]
pub(crate) async fn database(options: &MongoOptions) -> Database {
    Client::with_uri_str(&options.uri).await.unwrap().database(&options.database)
}

/// Lends the stores to another case when it is dropped.
#[derive(Debug)]
pub(crate) struct LentGuard(Option<LentStores>);

impl Drop for LentGuard {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(LentStores::give_back);
    }
}

/// Removes the database when it is dropped, and the keyspace.
#[derive(Debug)]
pub(crate) struct DatabaseGuard {
    options: MongoOptions,
    keyspace: Option<String>,
}

impl Drop for DatabaseGuard {
    fn drop(&mut self) {
        let MongoOptions { uri, database, .. } = self.options.clone();
        let keyspace = self.keyspace.take();
        let cleaning = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = Client::with_uri_str(uri).await.unwrap();
                client.database(&database).drop().await.unwrap();
                if let Some(name) = keyspace {
                    let drop = format!("DROP KEYSPACE IF EXISTS {name}");
                    session().await.query_unpaged(drop, ()).await.unwrap();
                }
            });
        });
        if cleaning.join().is_err() {
            eprintln!("a test database was left behind");
        }
    }
}
