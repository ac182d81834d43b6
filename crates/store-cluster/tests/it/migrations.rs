//! Nodes that migrate at the same time, and what a node that died in the middle left behind.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::server;
use std::time::Duration;

use kith_store::StoreError;
use kith_store_cluster::{MongoOptions, connect};
use mongodb::bson::{DateTime, Document, doc};

async fn lock_held_for(options: &MongoOptions, time: Duration) {
    let until = DateTime::from_system_time(std::time::SystemTime::now() + time);
    let lock = doc! { "_id": "lock", "owner": 1_i64, "until": until };
    let migrations = server::database(options).await.collection::<Document>("migrations");
    migrations.insert_one(lock).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn of_nodes_that_start_at_once_one_migrates() {
    let options = server::options();
    let nodes = (0..8).map(|_| {
        let options = options.clone();
        tokio::spawn(
            async move { connect(options).await.unwrap().stores().migrations.migrate().await.unwrap() },
        )
    });
    let mut applied = Vec::new();
    for node in nodes.collect::<Vec<_>>() {
        applied.extend(node.await.unwrap());
    }
    let (stores, _guard) = server::open_with(options).await;
    let mut numbers: Vec<u32> = applied.iter().map(|migration| migration.number).collect();
    numbers.sort_unstable();
    let known: Vec<u32> =
        stores.migrations.status().await.unwrap().iter().map(|migration| migration.number).collect();
    assert_eq!(numbers, known, "each is applied once, by one of them");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn wait_for_held_lock_is_bounded() {
    let options = MongoOptions { migration_wait: Duration::from_millis(300), ..server::options() };
    lock_held_for(&options, Duration::from_secs(600)).await;
    let stores = connect(options.clone()).await.unwrap().stores();
    let error = stores.migrations.migrate().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    server::database(&options).await.drop().await.unwrap();
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn the_lock_of_a_node_that_died_is_taken_over() {
    let options = server::options();
    lock_held_for(&options, Duration::ZERO).await;
    let (stores, _guard) = server::open_with(options).await;
    assert!(stores.migrations.status().await.unwrap().iter().all(|one| one.applied.is_some()));
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_migration_that_was_cut_short_is_done_again() {
    let options = server::options();
    let database = server::database(&options).await;
    database.create_collection("users").await.unwrap();
    let (stores, _guard) = server::open_with(options).await;
    assert!(stores.migrations.status().await.unwrap().iter().all(|one| one.applied.is_some()));
    let indexes = database.collection::<Document>("users").list_index_names().await.unwrap();
    assert!(indexes.contains(&"name_key".to_owned()), "{indexes:?}");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn data_of_a_newer_program_are_not_touched() {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    let migrations = server::database(&options).await.collection::<Document>("migrations");
    migrations.insert_one(doc! { "_id": 9999_i64, "name": "later", "at": 1_i64 }).await.unwrap();
    let (status, migrated) = (stores.migrations.status().await, stores.migrations.migrate().await);
    assert!(
        matches!(&status, Err(StoreError::NewerSchema { found: 9999, name, known }) if name == "later" && *known < 9999),
        "{status:?}"
    );
    assert!(matches!(migrated, Err(StoreError::NewerSchema { found: 9999, .. })), "{migrated:?}");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn indexes_of_a_dropped_collection_come_back() {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    let users = server::database(&options).await.collection::<Document>("users");
    let indexes = users.list_index_names().await.unwrap();
    users.drop().await.unwrap();
    users.insert_one(doc! { "_id": 7_i64 }).await.unwrap();
    assert_eq!(users.list_index_names().await.unwrap(), ["_id_"], "a write makes the collection alone");
    assert!(stores.migrations.migrate().await.unwrap().is_empty(), "no migration is pending");
    stores.migrations.restore_indexes().await.unwrap();
    assert_eq!(users.list_index_names().await.unwrap(), indexes);
    // It cannot be created over two documents with one name.
    users.drop_index("name_key").await.unwrap();
    users
        .insert_many([doc! { "_id": 8_i64, "name_key": "ann" }, doc! { "_id": 9_i64, "name_key": "ann" }])
        .await
        .unwrap();
    let refused = stores.migrations.restore_indexes().await;
    assert!(matches!(refused, Err(StoreError::Internal { .. })), "{refused:?}");
}
