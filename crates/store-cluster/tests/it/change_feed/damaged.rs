//! Edits that break a document. No such edit stops the feed.

use kith_store::{FeedRecord, StoreError};
use mongodb::bson::{Bson, Document, doc};

use super::{Reader, Stage, of_user, user_id, version};

/// Makes the edit, and returns the version with which it was delivered.
async fn delivered_version(stage: &Stage, edit: Document) -> i64 {
    stage.create(1).await;
    stage.update(1, 9).await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.documents("users").update_one(doc! { "_id": 1 }, edit).await.unwrap();
    let delivered = reader.take(2).await;
    assert_eq!(delivered[0].record, FeedRecord::User(user_id(1)));
    assert!(delivered[0].by_hand && !delivered[1].by_hand, "{delivered:?}");
    assert_eq!(delivered[0].version, delivered[1].version);
    // The feed goes on.
    stage.create(2).await;
    assert_eq!(reader.take(1).await, [of_user(2, version(1))]);
    delivered[0].version.unwrap().get()
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn invalid_version_is_replaced_by_a_higher_one() {
    let broken = [
        Bson::from("3"),
        Bson::Null,
        Bson::Boolean(true),
        Bson::Array(vec![Bson::Int64(1), Bson::Int64(2)]),
        Bson::Document(doc! { "v": 3_i64 }),
        Bson::Double(f64::NAN),
        Bson::Double(f64::INFINITY),
        Bson::Double(1.5),
        Bson::Int32(1),
        Bson::Int64(-3),
        Bson::Int64(0),
    ];
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let mut last = stage.create(1).await.get();
    reader.take(1).await;
    for value in broken {
        let edit = doc! { "$set": { "v": value.clone() } };
        stage.documents("users").update_one(doc! { "_id": 1 }, edit).await.unwrap();
        let delivered = reader.take(2).await;
        let given = delivered[0].version.unwrap().get();
        assert!(delivered[0].by_hand && given > last, "{value}: {given} after {last}");
        assert_eq!(stage.user(1).await.version.get(), given, "{value}");
        last = given;
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn unreadable_field_is_published_all_the_same() {
    let edits = [
        doc! { "$set": { "nick": 7 } },
        doc! { "$set": { "params": "none" } },
        doc! { "$set": { "deleted": 0, "age": [1, 2] } },
        doc! { "$rename": { "name": "nom" } },
    ];
    for edit in edits {
        let stage = Stage::open().await;
        assert_eq!(delivered_version(&stage, edit.clone()).await, 3, "{edit}");
        let read = stage.stores.users.user(user_id(1)).await;
        let is_unread = matches!(read, Err(StoreError::Corrupt { .. }));
        assert!(
            is_unread || edit.get_document("$set").is_ok_and(|set| set.contains_key("deleted")),
            "{edit}"
        );
    }
}

/// The feed gives a version to what is changed by hand, but not to what was changed while it was lost.
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn read_gives_a_version_to_what_has_none() {
    let stage = Stage::open().await;
    let unset = doc! { "$unset": { "v": "" } };
    for id in 1..=3 {
        stage.create(id).await;
    }
    stage.documents("users").update_many(doc! {}, unset.clone()).await.unwrap();
    let read = stage.user(1).await.version;
    assert!(read > version(1), "{read:?}");
    let users = &stage.stores.users;
    let batch = users.users(&[user_id(1), user_id(2)]).await.unwrap();
    let versions: Vec<_> = batch.into_iter().map(|(_, user)| user.live().unwrap().version).collect();
    assert!(versions.iter().all(|found| *found > version(1)), "{versions:?}");
    stage.documents("users").update_one(doc! { "_id": 3 }, unset).await.unwrap();
    let page = users.scan_users(None, 10).await.unwrap();
    assert!(page.len() == 3 && page.iter().all(|user| user.version > version(1)), "{page:?}");
}
