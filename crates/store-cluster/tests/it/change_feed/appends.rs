//! Appended messages in a feed that delivers them, too.

use kith_store::{
    ContentChange, ConversationId, DocumentKey, FeedChange, FeedRecord, MessageChange, MessageKey,
    MessageKind, NewMessage, Recalled, RecalledBy, SeqRange, Timestamp,
    conformance::message_sample::{batch, log_of, message},
};
use kith_store_cluster::MongoOptions;
use mongodb::bson::{Binary, Document, doc, spec::BinarySubtype};

use super::{Reader, Stage, of_user, version};
use crate::server;

async fn open() -> (Stage, Reader) {
    let stage = Stage::open_with(MongoOptions { appends_in_feed: true, ..server::options() }).await;
    let reader = Reader::open(&stage.feed, None).await;
    (stage, reader)
}

async fn append(stage: &Stage, conversation: ConversationId, ids: &str, count: usize) {
    stage.stores.messages.append(conversation, &batch(ids, count)).await.unwrap();
}

fn appended(conversation: ConversationId, first: i64, last: i64) -> FeedChange {
    let record = FeedRecord::Messages(conversation, SeqRange { first, last });
    FeedChange { record, version: None, by_hand: false }
}

fn id(document: i64) -> Document {
    doc! { "_id": { "c": "g9", "d": document } }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn appends_are_delivered_with_their_numbers() {
    let (stage, mut reader) = open().await;
    let direct = "d7-8".parse().unwrap();
    append(&stage, log_of(9), "a", 60).await;
    append(&stage, direct, "a", 1).await;
    append(&stage, log_of(9), "b", 40).await;
    append(&stage, log_of(9), "c", 1).await;
    append(&stage, direct, "b", 1).await;
    append(&stage, log_of(9), "d", 9).await;
    let expected = [
        appended(log_of(9), 1, 60),
        appended(direct, 1, 1),
        appended(log_of(9), 61, 100),
        appended(log_of(9), 101, 101),
        appended(direct, 2, 2),
        appended(log_of(9), 102, 110),
    ];
    assert_eq!(reader.take(6).await, expected);
    reader.assert_quiet().await;
}

/// The server does not say which messages filled a document that could not take all of them.
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn append_over_a_boundary_misses_no_message() {
    let (stage, mut reader) = open().await;
    append(&stage, log_of(9), "a", 60).await;
    append(&stage, log_of(9), "b", 70).await;
    append(&stage, log_of(9), "c", 100).await;
    let changes = reader.take(5).await;
    let mut last = 0;
    for change in &changes {
        let FeedRecord::Messages(conversation, seqs) = change.record else { panic!("{change:?}") };
        assert_eq!(conversation, log_of(9));
        assert!(seqs.first <= last + 1 && seqs.last > last, "{changes:?}");
        last = seqs.last;
    }
    assert_eq!(last, 230);
    reader.assert_quiet().await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn logs_of_kith_are_not_delivered() {
    let (stage, mut reader) = open().await;
    append(&stage, ConversationId::OFFLINE[1], "a", 3).await;
    append(&stage, ConversationId::OFFLINE[1], "b", 3).await;
    let version = stage.create(1).await;
    assert_eq!(reader.take(1).await, [of_user(1, version)]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn changed_messages_are_no_appended_messages() {
    let (stage, mut reader) = open().await;
    append(&stage, log_of(9), "m", 20).await;
    assert_eq!(reader.take(1).await, [appended(log_of(9), 1, 20)]);
    let recalled = Recalled { by: RecalledBy::Service, time: Timestamp(9) };
    let event = NewMessage { key: MessageKey::of_recall(20), kind: MessageKind::Event, ..message("event") };
    let recall = MessageChange { seq: 20, content: ContentChange::Recall(recalled), event };
    stage.stores.messages.change(log_of(9), &recall).await.unwrap();
    let mut changes = reader.take(2).await;
    changes.sort_by_key(|change| change.record);
    let document = FeedRecord::Document(DocumentKey { conversation: log_of(9), document: 0 });
    let changed = |number, by_hand| FeedChange { record: document, version: Some(version(number)), by_hand };
    assert_eq!(changes, [changed(2, false), appended(log_of(9), 21, 21)]);
    let body = Binary { subtype: BinarySubtype::Generic, bytes: b"edited".to_vec() };
    let edit = doc! { "$set": { "m.4.b": body } };
    stage.documents("messages").update_one(id(0), edit).await.unwrap();
    assert_eq!(reader.take(2).await, [changed(3, true), changed(3, false)]);
    // Upkeep changes times, and removes documents.
    stage.documents("messages").update_one(id(0), doc! { "$set": { "hi": 9_i64 } }).await.unwrap();
    stage.documents("messages").delete_one(id(0)).await.unwrap();
    reader.assert_quiet().await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn feed_continues_within_appends() {
    let (stage, mut reader) = open().await;
    append(&stage, log_of(9), "a", 1).await;
    assert_eq!(reader.take(1).await, [appended(log_of(9), 1, 1)]);
    append(&stage, log_of(9), "b", 1).await;
    append(&stage, log_of(9), "c", 1).await;
    let mut next = Reader::open(&stage.feed, Some(&reader.mark)).await;
    assert_eq!(next.take(2).await, [appended(log_of(9), 2, 2), appended(log_of(9), 3, 3)]);
}
