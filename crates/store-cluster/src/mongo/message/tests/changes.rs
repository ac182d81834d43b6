//! Message changes: what the documents and the commands look like, and other nodes that append.

use kith_store::{
    ContentChange, MessageChange, MessageChangeOutcome, MessageKey, MessageKind, MessageStore as _,
    MessageUpkeep as _, NewMessage, Recalled, RecalledBy, Seq, Timestamp, UserId,
};
use mongodb::bson::{Bson, Document, doc};

use super::{
    super::documents::id,
    batch, log, message,
    stage::{Stage, fill},
};
use crate::mongo::{
    concerns::{assert_majority_writes, assert_reads, commands},
    database::Mongo,
};

fn recall(seq: Seq) -> MessageChange {
    let recalled = Recalled { by: RecalledBy::Service, time: Timestamp(7) };
    let (key, kind, sent) = (MessageKey::of_recall(seq), MessageKind::Event, Timestamp(8));
    let event = NewMessage { key, kind, sent, ..message("event") };
    MessageChange { seq, content: ContentChange::Recall(recalled), event }
}

/// Recalls a message, and returns its event's number.
async fn recalled(node: &Mongo, seq: Seq) -> Seq {
    match node.change(log(), &recall(seq)).await.unwrap() {
        MessageChangeOutcome::Done { event_seq, replayed: false, .. } => event_seq,
        other => panic!("not recalled: {other:?}"),
    }
}

async fn raw<const N: usize>(stage: &Stage<N>, document: i64) -> Document {
    let raw = stage.nodes[0].database.collection::<Document>("messages");
    raw.find_one(doc! { "_id": id(log(), document) }).await.unwrap().unwrap()
}

fn version(document: &Document) -> i64 {
    document.get_i64("v").unwrap()
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn recall_clears_all_text_and_raises_version() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        let secret = NewMessage { mentions: vec![UserId::new(8).unwrap()], ..message("secret") };
        fill(node, &[message("first"), secret]).await;
        assert_eq!((version(&raw(stage, 0).await), recalled(node, 2).await), (1, 3));
        let document = raw(stage, 0).await;
        assert!(version(&document) == 2 && document.get_i64("u").is_ok(), "the feed believes it");
        let element = document.get_array("m").unwrap()[1].as_document().unwrap().clone();
        assert_eq!(element.keys().collect::<Vec<_>>(), ["k", "h", "f", "t", "y", "x", "r"]);
        assert_eq!(element.get_document("r").unwrap(), &doc! { "by": -1_i64, "t": 7_i64 });
        assert_eq!(element.get("x"), Some(&Bson::Int32(0)), "a flag keeps its type");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn erasure_leaves_no_text_and_one_new_version() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        let sender = message("secret").sender.unwrap();
        let secret = NewMessage { mentions: vec![UserId::new(8).unwrap()], ..message("secret") };
        fill(node, &[secret]).await;
        for erased in [1, 0] {
            assert_eq!(node.erase_document(log(), 1, sender, Timestamp(7)).await.unwrap(), erased);
            let document = raw(stage, 0).await;
            assert!(version(&document) == 2 && document.get_i64("u").is_ok(), "the feed believes it");
            let element = document.get_array("m").unwrap()[0].as_document().unwrap();
            assert_eq!(element.keys().collect::<Vec<_>>(), ["k", "f", "t", "y", "x", "r"]);
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn event_of_a_full_document_begins_the_next_one() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        fill(one, &batch("m", 99)).await;
        assert_eq!((recalled(other, 7).await, recalled(other, 8).await), (100, 101));
        assert_eq!(stage.sizes().await, [(0, 100), (1, 1)]);
        let next = raw(stage, 1).await;
        assert_eq!((version(&next), next.get_i64("t0").unwrap()), (1, 8));
        // Appends by hints on either node go on behind it.
        assert_eq!(one.append(log(), &[message("a")]).await.unwrap(), super::new([102]));
        assert_eq!(other.append(log(), &[message("b")]).await.unwrap(), super::new([103]));
        assert_eq!(version(&raw(stage, 0).await), 3);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn hint_of_any_age_leads_to_the_tail() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        fill(one, &batch("old", 7)).await;
        fill(other, &batch("new", 243)).await;
        assert_eq!(recalled(one, 3).await, 251);
        stage.delete(0).await;
        assert_eq!(
            one.change(log(), &recall(4)).await.unwrap(),
            MessageChangeOutcome::Missing,
            "it was trimmed"
        );
        assert_eq!(stage.sizes().await, [(1, 100), (2, 51)]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn changes_land_while_other_nodes_append() {
    Stage::<3>::run(async |stage| {
        let [one, two, three] = &stage.nodes;
        fill(one, &batch("m", 20)).await;
        let append = async |node: &Mongo, ids: &str| {
            for step in 0..60 {
                fill(node, &batch(&format!("{ids}-{step}"), 3)).await;
            }
        };
        let change = async || {
            let mut events = Vec::new();
            for seq in 1..=20 {
                events.push(recalled(three, seq).await);
            }
            events
        };
        let ((), (), events) = tokio::join!(append(one, "one"), append(two, "two"), change());
        assert!(events.is_sorted(), "{events:?}");
        assert_eq!(stage.sizes().await, [(0, 100), (1, 100), (2, 100), (3, 100)]);
        for seq in events {
            assert_eq!(three.messages(log(), seq, seq).await.unwrap()[0].kind, MessageKind::Event);
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn change_is_one_transaction_that_a_majority_has() {
    let seen = commands(&["findAndModify", "insert", "commitTransaction"], async |stores| {
        stores.messages.append(log(), &batch("m", 100)).await.unwrap();
        stores.messages.change(log(), &recall(1)).await.unwrap();
        stores.messages.change(log(), &recall(2)).await.unwrap();
    });
    let seen = seen.await;
    let transactions: Vec<&Document> =
        seen.iter().filter(|command| command.contains_key("autocommit")).collect();
    let names: Vec<&String> = transactions.iter().filter_map(|command| command.keys().next()).collect();
    // The last one before the commit is that of the summary of reactions.
    let first = ["insert", "findAndModify", "findAndModify", "commitTransaction"];
    let second = ["findAndModify", "findAndModify", "findAndModify", "commitTransaction"];
    assert_eq!(names, [first, second].concat());
    for transaction in transactions.chunks(4) {
        let number = |command: &Document| command.get_i64("txnNumber").unwrap();
        assert!(transaction.iter().all(|command| number(command) == number(transaction[0])));
        assert_majority_writes(&[transaction[3].clone()], 1);
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn linearizable_reads_explain_refused_change() {
    let seen = commands(&["find"], async |stores| {
        stores.messages.append(log(), &batch("m", 1)).await.unwrap();
        for _ in 0..2 {
            stores.messages.change(log(), &recall(1)).await.unwrap();
        }
    });
    let seen = seen.await;
    let last = &seen[seen.len() - 2..];
    assert_reads(last, "linearizable", 2);
    // A message that is read before its event could lack what the event says.
    let filter = |find: &Document| find.get_document("filter").unwrap().clone();
    assert!(filter(&last[0]).contains_key("m.k"), "{last:?}");
    assert_eq!(filter(&last[1]).get_document("_id").unwrap(), &id(log(), 0));
}
