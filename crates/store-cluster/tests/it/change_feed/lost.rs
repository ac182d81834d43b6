//! Collections that go while they are read.

use kith_store::FeedError;
use mongodb::bson::doc;

use super::{Reader, Stage, of_user, version};

/// A reader that has read everything, and a mark before the last change.
async fn reading(stage: &Stage) -> (Reader, Vec<u8>) {
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.create(1).await;
    reader.take(1).await;
    let mark = reader.mark.clone();
    stage.create(2).await;
    reader.take(1).await;
    (reader, mark)
}

/// An open reader gets the error, and so does a reader that continues later; a new reader gets what comes.
async fn assert_lost(stage: &Stage, mut reader: Reader, mark: &[u8]) {
    assert!(matches!(reader.end().await, FeedError::Lost));
    let last = reader.mark.clone();
    for mark in [mark, &last] {
        let end = Reader::open(&stage.feed, Some(mark)).await.end().await;
        assert!(matches!(end, FeedError::Lost), "{end:?}");
    }
    let mut new_reader = Reader::open(&stage.feed, None).await;
    stage.create(3).await;
    assert_eq!(new_reader.take(1).await, [of_user(3, version(1))]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn dropped_collection_is_reported_as_lost() {
    let stage = Stage::open().await;
    let (reader, mark) = reading(&stage).await;
    stage.documents("groups").drop().await.unwrap();
    assert_lost(&stage, reader, &mark).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn renamed_collection_is_reported_as_lost() {
    let stage = Stage::open().await;
    let (reader, mark) = reading(&stage).await;
    let name = stage.database.name();
    let rename = doc! { "renameCollection": format!("{name}.users"), "to": format!("{name}.people") };
    stage.database.client().database("admin").run_command(rename).await.unwrap();
    assert_lost(&stage, reader, &mark).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn replaced_collection_is_reported_as_lost() {
    let stage = Stage::open().await;
    let (reader, mark) = reading(&stage).await;
    stage.documents("restored").insert_one(doc! { "_id": 1_i64, "v": 1_i64 }).await.unwrap();
    let name = stage.database.name();
    let rename = doc! { "renameCollection": format!("{name}.restored"), "to": format!("{name}.groups"), "dropTarget": true };
    stage.database.client().database("admin").run_command(rename).await.unwrap();
    assert_lost(&stage, reader, &mark).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn dropped_database_is_reported_as_lost() {
    let stage = Stage::open().await;
    let (reader, mark) = reading(&stage).await;
    stage.database.drop().await.unwrap();
    assert_lost(&stage, reader, &mark).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn another_collection_may_go() {
    let stage = Stage::open().await;
    let (mut reader, _) = reading(&stage).await;
    stage.documents("other").insert_one(doc! { "a": 1 }).await.unwrap();
    stage.documents("other").drop().await.unwrap();
    stage.create(3).await;
    assert_eq!(reader.take(1).await, [of_user(3, version(1))]);
}
