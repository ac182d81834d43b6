//! The suite of the contract, over a store in memory and over a file.

use kith_store::Stores;

async fn open() -> Stores {
    kith_store_sqlite::open_in_memory().await.unwrap().stores()
}

kith_store::conformance!(open);

mod file {
    use kith_store::Stores;
    use kith_store_sqlite::SqliteOptions;

    /// The file is gone with the test: the folder is removed while the store still has it open.
    async fn open() -> Stores {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("kith.db"));
        let stores = kith_store_sqlite::open(options).await.unwrap().stores();
        stores.migrations.migrate().await.unwrap();
        stores
    }

    kith_store::conformance!(open);
}
