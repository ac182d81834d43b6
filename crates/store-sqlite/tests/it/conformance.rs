//! Runs the contract suite over a store in memory and over a file.

#![expect(clippy::unwrap_used, reason = "a suite of tests")]

use kith_store::Stores;
use kith_store_sqlite::SqliteHandle;

async fn open() -> (Stores, SqliteHandle) {
    let handle = kith_store_sqlite::open_in_memory().await.unwrap();
    (handle.stores(), handle)
}

kith_store::conformance!(open);

mod file {
    use kith_store::Stores;
    use kith_store_sqlite::SqliteOptions;
    use tempfile::TempDir;

    async fn open() -> (Stores, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("kith.db"));
        let stores = kith_store_sqlite::open(options).await.unwrap().stores();
        stores.migrations.migrate().await.unwrap();
        (stores, folder)
    }

    kith_store::conformance!(open);
}
