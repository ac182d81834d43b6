//! The change stream with record events.

use std::time::Duration;

use kith_store::MessageStore as _;
use mongodb::bson::doc;

use super::{
    batch, log,
    stage::{Stage, fill},
};
use crate::mongo::feed::watch;

const BOUND: Duration = Duration::from_secs(30);

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn server_sends_no_append_to_the_feed() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        let mut stream = watch(node, None).await.unwrap();
        // Documents are made and changed, and a document is deleted.
        fill(node, &batch("m", 150)).await;
        node.append(log(), &batch("m", 3)).await.unwrap();
        stage.delete(0).await;
        let record = doc! { "_id": 7_i64, "v": 1_i64 };
        node.database.collection("users").insert_one(record).await.unwrap();
        let first = async {
            loop {
                if let Some(event) = stream.next_if_any().await.unwrap() {
                    return event;
                }
            }
        };
        let first = tokio::time::timeout(BOUND, first).await.unwrap();
        assert_eq!(first.get_document("ns").unwrap().get_str("coll").unwrap(), "users");
    })
    .await;
}
