//! Message documents: no append is in the feed, and every change by hand is.

use kith_store::{
    ContentChange, DocumentKey, FeedChange, FeedRecord, MessageChange, MessageChangeOutcome, MessageKey,
    MessageKind, NewMessage, Recalled, RecalledBy, Timestamp, UserId,
    conformance::message_sample::{batch, message},
};
use mongodb::bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

use super::{Reader, Stage, version};

fn key() -> DocumentKey {
    DocumentKey { conversation: "g9".parse().unwrap(), document: 0 }
}

fn id() -> Document {
    doc! { "_id": { "c": "g9", "d": 0_i64 } }
}

fn of_document(number: i64) -> FeedChange {
    FeedChange { record: FeedRecord::Document(key()), version: Some(version(number)), by_hand: false }
}

fn body(text: &str) -> Bson {
    Binary { subtype: BinarySubtype::Generic, bytes: text.as_bytes().to_vec() }.into()
}

async fn body_of(stage: &Stage, seq: i64) -> String {
    let found = stage.stores.messages.messages(key().conversation, seq, seq).await.unwrap();
    String::from_utf8(found[0].body.to_vec()).unwrap()
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn edited_messages_are_given_a_version() {
    let stage = Stage::open().await;
    stage.stores.messages.append(key().conversation, &batch("m", 20)).await.unwrap();
    let mut reader = Reader::open(&stage.feed, None).await;
    let documents = stage.documents("messages");
    for (edit, number) in [
        (doc! { "$set": { "m.4.b": body("1") } }, 2),
        (doc! { "$set": { "m.4.b": body("2") }, "$unset": { "m.5.ct": "" } }, 3),
        (doc! { "$unset": { "m.6.ct": "" } }, 4),
        (doc! { "$inc": { "v": 1_i64 } }, 0),
    ] {
        documents.update_one(id(), edit).await.unwrap();
        let given = reader.given(FeedRecord::Document(key())).await.get();
        assert!(given == number || number == 0 && given > 5, "{given}");
    }
    let mut replaced = documents.find_one(id()).await.unwrap().unwrap();
    replaced.remove("v");
    replaced.get_array_mut("m").unwrap()[4].as_document_mut().unwrap().insert("b", body("3"));
    documents.replace_one(id(), replaced).await.unwrap();
    assert!(reader.given(FeedRecord::Document(key())).await.get() > 5);
    assert_eq!(body_of(&stage, 5).await, "3");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn appends_are_not_in_the_feed() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    // The second step meets a document without room for all of it.
    for (ids, count) in [("a", 60), ("b", 70), ("c", 1), ("d", 100)] {
        stage.stores.messages.append(key().conversation, &batch(ids, count)).await.unwrap();
    }
    reader.assert_quiet().await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn changes_of_this_program_have_their_versions() {
    let stage = Stage::open().await;
    let conversation = key().conversation;
    stage.stores.messages.append(conversation, &batch("m", 20)).await.unwrap();
    let mut reader = Reader::open(&stage.feed, None).await;
    let sender = UserId::new(7).unwrap();
    for (user, changed) in [(8, 0), (7, 20), (7, 0)] {
        let user = UserId::new(user).unwrap();
        let erased = stage.stores.message_upkeep.erase_document(conversation, 1, user, Timestamp(9)).await;
        assert_eq!(erased.unwrap(), changed);
    }
    assert_eq!(reader.take(1).await, [of_document(2)]);
    stage.stores.messages.append(conversation, &batch("n", 20)).await.unwrap();
    let erased = stage.stores.message_upkeep.erase_document(conversation, 1, sender, Timestamp(9)).await;
    assert_eq!(erased.unwrap(), 20);
    assert_eq!(reader.take(1).await, [of_document(3)]);
    let recalled = Recalled { by: RecalledBy::Service, time: Timestamp(9) };
    let event = NewMessage { key: MessageKey::of_recall(41), kind: MessageKind::Event, ..message("event") };
    stage.stores.messages.append(conversation, &[message("last")]).await.unwrap();
    let recall = MessageChange { seq: 41, content: ContentChange::Recall(recalled), event };
    assert!(matches!(
        stage.stores.messages.change(conversation, &recall).await,
        Ok(MessageChangeOutcome::Done { .. })
    ));
    assert_eq!(reader.take(1).await, [of_document(4)]);
    reader.assert_quiet().await;
}
