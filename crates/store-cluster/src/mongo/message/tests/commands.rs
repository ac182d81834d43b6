//! The commands that the driver sent, whatever the connection string asks for.

use kith_store::{MessageStore, Stores, Timestamp};
use mongodb::bson::Document;

use super::{batch, log, messages};
use crate::mongo::concerns::{assert_majority_writes, assert_reads, commands};

const ALL: [&str; 6] = ["find", "findAndModify", "insert", "update", "aggregate", "getMore"];

async fn append(stores: &Stores, batch: &[kith_store::NewMessage]) {
    stores.messages.append(log(), batch).await.unwrap();
}

fn name(command: &Document) -> &str {
    command.keys().next().map_or("", String::as_str)
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn appends_wait_for_a_journaled_majority() {
    let seen = commands(&["insert", "findAndModify"], async |stores| {
        append(stores, &batch("m", 99)).await;
        append(stores, &messages(["a", "b"])).await;
    });
    let seen = seen.await;
    assert_eq!(seen.iter().map(name).collect::<Vec<_>>(), ["insert", "findAndModify", "insert"]);
    assert_majority_writes(&seen, 3);
    for command in &seen {
        let concern = command.get_document("writeConcern").unwrap();
        assert!(concern.contains_key("wtimeout"), "{command}");
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn push_is_bounded_and_leaves_no_image() {
    let seen = commands(&["findAndModify"], async |stores| {
        append(stores, &messages(["a"])).await;
        append(stores, &messages(["b"])).await;
    });
    let [push] = &seen.await[..] else { panic!("one push is expected") };
    assert_eq!(push.get_i64("maxTimeMS").unwrap(), 5000);
    // A retryable command has a number, and the server keeps the old document for it.
    assert!(!push.contains_key("txnNumber"), "{push}");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn lookup_of_keys_is_linearizable() {
    let seen = commands(&["find"], async |stores| {
        append(stores, &messages(["a"])).await;
        append(stores, &messages(["a"])).await;
    });
    let (lookups, others): (Vec<Document>, Vec<Document>) =
        seen.await.into_iter().partition(|find| find.get_document("filter").unwrap().contains_key("m.k"));
    assert_reads(&lookups, "linearizable", 1);
    assert_reads(&others, "majority", 1);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn strong_end_by_hint_is_one_linearizable_read() {
    let seen = commands(&["find"], async |stores| {
        append(stores, &messages(["a"])).await;
        assert_eq!(stores.messages.strong_end(log()).await.unwrap(), 1);
    });
    let seen = seen.await;
    assert_reads(&seen[seen.len() - 1..], "linearizable", 1);
    assert_reads(&seen[..seen.len() - 1], "majority", 1);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn reads_of_messages_ask_for_what_a_majority_has() {
    let seen = commands(&["find"], async |stores| {
        append(stores, &batch("m", 100)).await;
        let messages: &dyn MessageStore = &*stores.messages;
        messages.messages(log(), 1, 100).await.unwrap();
        messages.ends(&[log()]).await.unwrap();
        append(stores, &messages_of_next()).await;
        messages.ends(&[log()]).await.unwrap();
        messages.seq_at(log(), Timestamp(0)).await.unwrap();
        messages.seq_at(log(), Timestamp(i64::MAX)).await.unwrap();
    });
    assert_reads(&seen.await, "majority", 10);
}

fn messages_of_next() -> Vec<kith_store::NewMessage> {
    messages(["next"])
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn thousand_messages_need_no_number_operation() {
    let all = batch("m", 1000);
    // While a step is appended, 32 callers wait for the next step.
    let seen = commands(&ALL, async |stores| {
        for step in all.chunks(32) {
            append(stores, step).await;
        }
    });
    let seen = seen.await;
    let count = |names: &[&str]| seen.iter().filter(|command| names.contains(&name(command))).count();
    let (steps, borders) = (all.chunks(32).len(), all.len() / 100);
    // Step 25 ends at 800, and so at a border.
    assert_eq!(count(&["findAndModify", "insert"]), steps + borders - 2);
    assert_eq!(count(&["find"]), 2, "at the begin, and after a step that ended at a border");
    assert_eq!(seen.len(), steps + borders);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn ends_of_known_logs_are_one_query() {
    let groups = |number| kith_store::ConversationId::Group(kith_store::GroupId::new(number).unwrap());
    let seen = commands(&["find"], async |stores| {
        for number in 1..=20 {
            stores.messages.append(groups(number), &messages(["a"])).await.unwrap();
        }
        let known: Vec<_> = (1..=20).map(groups).collect();
        let ends = stores.messages.ends(&known).await.unwrap();
        assert!(ends.iter().all(|end| end.seq == 1), "{ends:?}");
    });
    // Each log was looked for once, when it began.
    assert_eq!(seen.await.len(), 20 + 1);
}
