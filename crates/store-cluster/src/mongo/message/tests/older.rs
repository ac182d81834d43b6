//! Documents from an earlier version, which lack their highest times.

use kith_store::{
    CompletedTimes, ConversationId, MessageStore as _, MessageUpkeep as _, NewMessage, Seq, Timestamp,
    conformance::message_sample::{log_of, message},
};
use mongodb::bson::{Document, doc};

use super::{
    log,
    stage::{Stage, fill},
};
use crate::mongo::database::Mongo;

/// Messages whose times fall again and again.
fn falling(ids: &str, count: i64) -> Vec<NewMessage> {
    let sent = |at: i64| Timestamp(1_000 * (at % 130) + at);
    (1..=count).map(|at| NewMessage { sent: sent(at), ..message(&format!("{ids}{at}")) }).collect()
}

/// Removes the times from all documents, as if an earlier version had written them.
async fn make_older(node: &Mongo) {
    let times = doc! { "$unset": { "hi": "", "age": "", "made": "" } };
    node.messages.update_many(doc! {}, times).await.unwrap();
}

/// The highest times in a log's documents, in their order.
async fn times(node: &Mongo, conversation: ConversationId) -> Vec<Option<i64>> {
    let raw = node.database.collection::<Document>("messages");
    let find = raw.find(super::super::documents::documents_of(conversation)).sort(doc! { "_id": 1 });
    let (mut cursor, mut times) = (find.await.unwrap(), Vec::new());
    while cursor.advance().await.unwrap() {
        let found: Document = cursor.deserialize_current().unwrap();
        let [hi, age] = ["hi", "age"].map(|field| found.get_i64(field).ok());
        assert_eq!(hi, age);
        times.push(hi);
    }
    times
}

/// Completes all documents, and returns how many lacked their times.
async fn complete(node: &Mongo) -> u64 {
    let (mut next, mut count) = (None, 0);
    loop {
        let CompletedTimes { completed, next: then } = node.complete_times(next, 2).await.unwrap();
        (next, count) = (then, count + completed);
        if next.is_none() {
            return count;
        }
    }
}

async fn assert_found_by_time(node: &Mongo, messages: &[NewMessage]) {
    for time in (0..140_000).step_by(7_001) {
        let first = (1..).zip(messages).find(|(_, message)| message.sent >= Timestamp(time));
        let expected: Seq = first.map_or(Seq::try_from(messages.len()).unwrap() + 1, |(seq, _)| seq);
        assert_eq!(node.seq_at(log(), Timestamp(time)).await.unwrap(), expected, "{time}");
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn older_documents_get_the_times_of_new_ones() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        let messages = falling("m", 450);
        fill(node, &messages).await;
        let other: Vec<_> = falling("other", 150);
        for some in other.chunks(100) {
            node.append(log_of(10), some).await.unwrap();
        }
        let written = (times(node, log()).await, times(node, log_of(10)).await);
        assert!(written.0.len() == 5 && written.0.is_sorted() && written.0[0].is_some(), "{written:?}");
        assert_found_by_time(node, &messages).await;
        make_older(node).await;
        assert_eq!(complete(node).await, 7);
        assert_eq!((times(node, log()).await, times(node, log_of(10)).await), written);
        assert_eq!(complete(node).await, 0);
        assert_found_by_time(node, &messages).await;
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn log_without_times_gets_none_until_completed() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        let messages = falling("m", 350);
        fill(node, &messages[..150]).await;
        make_older(node).await;
        fill(node, &messages[150..]).await;
        assert_eq!(times(node, log()).await, [None; 4]);
        assert_eq!(
            node.aged(Timestamp(i64::MIN)..Timestamp(i64::MAX), 10).await.unwrap(),
            [],
            "none is hidden"
        );
        assert!((1..=351).contains(&node.seq_at(log(), Timestamp(9)).await.unwrap()), "by the first times");
        assert_eq!(complete(node).await, 4);
        assert_found_by_time(node, &messages).await;
        assert_eq!(node.aged(Timestamp(i64::MIN)..Timestamp(i64::MAX), 10).await.unwrap().len(), 4);
        let next = falling("next", 60);
        fill(node, &next).await;
        assert!(times(node, log()).await.iter().all(Option::is_some));
    })
    .await;
}
