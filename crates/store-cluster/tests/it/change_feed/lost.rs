//! Collections that go while they are read.

use kith_store::FeedError;
use mongodb::bson::doc;

use super::{Reader, Stage, of_user, version};

impl Stage {
    /// Gives a collection another's name, which goes.
    async fn rename(&self, from: &str, to: &str) {
        let named = |name| format!("{}.{name}", self.database.name());
        let rename = doc! { "renameCollection": named(from), "to": named(to), "dropTarget": true };
        self.database.client().database("admin").run_command(rename).await.unwrap();
    }
}

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
async fn assert_lost(stage: &Stage, mut reader: Reader, mark: &[u8], gone: &str) {
    assert!(matches!(reader.end().await, FeedError::Lost), "{gone}");
    let last = reader.mark.clone();
    for mark in [mark, &last] {
        let end = Reader::open(&stage.feed, Some(mark)).await.end().await;
        assert!(matches!(end, FeedError::Lost), "{gone}: {end:?}");
    }
    let mut new_reader = Reader::open(&stage.feed, None).await;
    stage.create(3).await;
    assert_eq!(new_reader.take(1).await, [of_user(3, version(1))]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_collection_that_goes_is_reported_as_lost() {
    for gone in ["dropped", "renamed", "replaced", "dropped with its database"] {
        let stage = Stage::open().await;
        let (reader, mark) = reading(&stage).await;
        match gone {
            "dropped" => stage.documents("groups").drop().await.unwrap(),
            "renamed" => stage.rename("users", "people").await,
            "replaced" => {
                stage.documents("restored").insert_one(doc! { "_id": 1_i64, "v": 1_i64 }).await.unwrap();
                stage.rename("restored", "groups").await;
            }
            _ => stage.database.drop().await.unwrap(),
        }
        assert_lost(&stage, reader, &mark, gone).await;
    }
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
