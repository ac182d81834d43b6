//! Fresh databases on a real server.

#![expect(clippy::unwrap_used, reason = "tests")]

use kith_store::Stores;
use kith_store_cluster::{MongoOptions, connect};
use mongodb::{Client, Database};

/// Address of a replica set that tests may fill; names the databases that they make `kith_test_...`.
#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
pub(crate) fn address() -> String {
    std::env::var("KITH_TEST_MONGODB").expect("KITH_TEST_MONGODB names a MongoDB replica set")
}

/// Options for a database of its own.
pub(crate) fn options() -> MongoOptions {
    MongoOptions::new(address(), format!("kith_test_{}", uuid::Uuid::new_v4().simple()))
}

/// Empty stores, migrated, and the guard that removes their database.
pub(crate) async fn open_with(options: MongoOptions) -> (Stores, Cleaning) {
    let stores = connect(options.clone()).await.unwrap().stores();
    stores.migrations.migrate().await.unwrap();
    (stores, Cleaning { options })
}

/// The driver's own view of a database.
#[allow(dead_code, reason = "not every test file looks into the database")]
pub(crate) async fn database(options: &MongoOptions) -> Database {
    Client::with_uri_str(&options.uri).await.unwrap().database(&options.database)
}

/// Removes the database when it is dropped.
#[derive(Debug)]
pub(crate) struct Cleaning {
    options: MongoOptions,
}

impl Drop for Cleaning {
    fn drop(&mut self) {
        let MongoOptions { uri, database, .. } = self.options.clone();
        let cleaning = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = Client::with_uri_str(uri).await.unwrap();
                client.database(&database).drop().await.unwrap();
            });
        });
        if cleaning.join().is_err() {
            eprintln!("a test database was left behind");
        }
    }
}
