//! Appends whose answers are lost, refused, or say that no majority is known to have them.

use std::time::Duration;

use kith_store::{Appended, Outcome, StoreError};
use mongodb::{
    Database,
    bson::{Document, doc},
};

use super::{batch, fill, log, message, read, replayed};
use crate::faults::{FaultyStores, cut, majority_unknown};

/// The server stops being the primary while it waits for the majority.
const STEPPED_DOWN: i32 = 189;
const NOT_WRITABLE_PRIMARY: i32 = 10107;
const BOUND: Duration = Duration::from_secs(10);

fn assert_unknown(result: Result<Vec<Appended>, StoreError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
}

/// A document may be made with it, or it may be pushed.
const BOTH: [(&str, usize); 2] = [("insert", 0), ("findAndModify", 3)];

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn append_without_majority_is_later_a_replay() {
    for (command, before) in BOTH {
        let faulty = FaultyStores::open().await;
        fill(&faulty.stores, &batch("before", before)).await;
        faulty.fail(&[command], 1, majority_unknown(64)).await;
        let sent = [message("a"), message("b")];
        let first = faulty.stores.messages.append(log(), &sent).await;
        faulty.heal().await;
        assert_unknown(first);
        let again = faulty.stores.messages.append(log(), &sent).await.unwrap();
        let first = i64::try_from(before).unwrap() + 1;
        assert_eq!(again, [replayed(first), replayed(first + 1)]);
        assert_eq!(read(&faulty.stores).await.len(), before + 2);
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn part_without_majority_is_unknown_then_replay() {
    let faulty = FaultyStores::open().await;
    fill(&faulty.stores, &batch("before", 97)).await;
    let ten = batch("ten", 10);
    faulty.fail(&["insert"], 1, majority_unknown(64)).await;
    let first = faulty.stores.messages.append(log(), &ten).await;
    faulty.heal().await;
    assert_unknown(first);
    let again = faulty.stores.messages.append(log(), &ten).await.unwrap();
    assert_eq!(again, (98..=107).map(replayed).collect::<Vec<_>>());
    assert_eq!(read(&faulty.stores).await.len(), 107);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn refused_insert_with_ok_reply_is_an_error() {
    let faulty = FaultyStores::open().await;
    // This log's documents are refused. The reply is `ok: 1` with `writeErrors`.
    let database = faulty.database();
    refuse(&database, doc! { "_id.c": { "$ne": "g9" } }).await;
    let error = faulty.stores.messages.append(log(), &[message("a")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Internal { outcome: Outcome::NotApplied, .. }), "{error:?}");
    assert_eq!(read(&faulty.stores).await, []);
    refuse(&database, doc! {}).await;
    let appended = faulty.stores.messages.append(log(), &[message("a")]).await.unwrap();
    assert_eq!(appended, [Appended::New(1)]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn refused_rest_of_a_batch_is_unknown() {
    let faulty = FaultyStores::open().await;
    fill(&faulty.stores, &batch("before", 97)).await;
    let database = faulty.database();
    refuse(&database, doc! { "_id.d": { "$ne": 1 } }).await;
    let ten = batch("ten", 10);
    let error = faulty.stores.messages.append(log(), &ten).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
    assert_eq!(read(&faulty.stores).await.len(), 100, "three of them are in");
    refuse(&database, doc! {}).await;
    let again = faulty.stores.messages.append(log(), &ten).await.unwrap();
    let expected = (98..=100).map(replayed).chain((101..=107).map(Appended::New));
    assert_eq!(again, expected.collect::<Vec<_>>());
}

async fn refuse(database: &Database, validator: Document) {
    database.run_command(doc! { "collMod": "messages", "validator": validator }).await.unwrap();
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn append_to_a_secondary_is_done_by_the_retry() {
    let faulty = FaultyStores::open().await;
    fill(&faulty.stores, &batch("before", 3)).await;
    faulty.fail(&["findAndModify"], 1, doc! { "errorCode": NOT_WRITABLE_PRIMARY }).await;
    let first = faulty.stores.messages.append(log(), &[message("a")]).await;
    assert!(matches!(first, Err(StoreError::Unavailable { .. })), "{first:?}");
    let again = faulty.stores.messages.append(log(), &[message("a")]).await.unwrap();
    faulty.heal().await;
    assert_eq!(again, [Appended::New(4)]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn append_whose_connection_is_cut_is_done_once() {
    for (command, before) in BOTH {
        let faulty = FaultyStores::open().await;
        fill(&faulty.stores, &batch("before", before)).await;
        faulty.fail(&[command], 1, cut()).await;
        let mut appended = faulty.stores.messages.append(log(), &[message("a")]).await;
        if appended.is_err() {
            // The driver sends an insert again by itself, and a push not.
            assert_eq!(command, "findAndModify");
            assert_unknown(appended);
            appended = faulty.stores.messages.append(log(), &[message("a")]).await;
        }
        faulty.heal().await;
        assert_eq!(appended.unwrap(), [Appended::New(i64::try_from(before).unwrap() + 1)]);
        assert_eq!(read(&faulty.stores).await.len(), before + 1);
    }
}

/// The finds by which nodes looked for the primary.
async fn checks(database: &Database) -> u64 {
    let filter = doc! { "op": "query", "command.comment": "topology check" };
    database.collection::<Document>("system.profile").count_documents(filter).await.unwrap()
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn deposed_primary_makes_the_node_look_again() {
    let faulty = FaultyStores::open().await;
    fill(&faulty.stores, &batch("before", 3)).await;
    let database = faulty.database();
    database.run_command(doc! { "profile": 2 }).await.unwrap();
    for (code, expected) in [(64, 0), (STEPPED_DOWN, 1)] {
        faulty.fail(&["findAndModify"], 1, majority_unknown(code)).await;
        let id = format!("code-{code}");
        assert_unknown(faulty.stores.messages.append(log(), &[message(&id)]).await);
        faulty.heal().await;
        let looked = async {
            while checks(&database).await < expected {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(BOUND, looked).await.unwrap();
        let again = faulty.stores.messages.append(log(), &[message(&id)]).await.unwrap();
        assert!(matches!(again[..], [Appended::Replayed { .. }]), "{again:?}");
    }
    assert_eq!(checks(&database).await, 1);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn append_error_repeats_neither_body_nor_id() {
    let faulty = FaultyStores::open().await;
    refuse(&faulty.database(), doc! { "_id.c": "none" }).await;
    let error = faulty.stores.messages.append(log(), &[message("sesame")]).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    for private in ["sesame", "g9", "27017", "127.0.0.1"] {
        assert!(!shown.contains(private), "{shown}");
    }
}

#[tokio::test]
async fn append_to_unreachable_server_is_not_applied() {
    let limit = Duration::from_millis(200);
    let uri = "mongodb://127.0.0.1:1/?replicaSet=rs0";
    let options = kith_store_cluster::MongoOptions {
        server_selection: limit,
        ..kith_store_cluster::MongoOptions::new(uri, "kith")
    };
    let stores = kith_store_cluster::connect(options).await.unwrap().stores();
    let error = stores.messages.append(log(), &[message("a")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error:?}");
}
