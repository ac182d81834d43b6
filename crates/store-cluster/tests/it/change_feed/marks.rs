//! Going on where an earlier reader ended.

use kith_store::FeedError;
use mongodb::bson::{Document, RawDocumentBuf, doc, serialize_to_vec};
use tokio::time::Instant;

use super::{BOUND, QUIET, Reader, Stage, of_user, version};

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn feed_without_mark_begins_with_new_changes() {
    let stage = Stage::open().await;
    stage.create(1).await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.create(2).await;
    assert_eq!(reader.take(1).await, [of_user(2, version(1))]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn reader_resumes_exactly_after_each_mark() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let mut marks = vec![reader.mark.clone()];
    for id in 1..=5 {
        stage.create(id).await;
        reader.take(1).await;
        marks.push(reader.mark.clone());
    }
    for (count, mark) in (0..=5).zip(&marks) {
        let mut again = Reader::open(&stage.feed, Some(mark)).await;
        let expected: Vec<_> = (count + 1..=5).map(|id| of_user(id, version(1))).collect();
        assert_eq!(again.take(expected.len()).await, expected);
        again.assert_quiet().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn first_mark_of_a_feed_can_be_resumed() {
    let stage = Stage::open().await;
    let other = stage.documents("other");
    let writing = tokio::spawn(async move {
        loop {
            other.insert_one(doc! { "a": 1 }).await.unwrap();
        }
    });
    for id in 1..=30 {
        let begun = Reader::open(&stage.feed, None).await;
        let mut again = Reader::open(&stage.feed, Some(&begun.mark)).await;
        if id % 10 == 0 {
            stage.create(id).await;
            assert_eq!(again.take(1).await, [of_user(id, version(1))]);
        }
    }
    writing.abort();
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn mark_inside_a_transaction_loses_nothing() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let mut session = stage.database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let users = stage.documents("users");
    for id in 1..=300_i64 {
        let name = format!("u{id}");
        let user = doc! { "_id": id, "v": 1_i64, "name": &name, "name_key": &name, "w": id };
        users.insert_one(user).session(&mut session).await.unwrap();
    }
    session.commit_transaction().await.unwrap();
    let expected: Vec<_> = (1..=300).map(|id| of_user(id, version(1))).collect();
    let (mut delivered, give_up) = (Vec::new(), Instant::now() + BOUND);
    while delivered.is_empty() {
        assert!(Instant::now() < give_up, "the transaction is not delivered");
        delivered = reader.next(QUIET).await.unwrap();
    }
    assert!(delivered.len() < 300, "the batch should end within");
    let mut again = Reader::open(&stage.feed, Some(&reader.mark)).await;
    delivered.extend(again.take(300 - delivered.len()).await);
    assert_eq!(delivered, expected);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn mark_advances_while_nothing_is_delivered() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let (first, give_up) = (reader.mark.clone(), Instant::now() + BOUND);
    while reader.mark == first {
        assert!(Instant::now() < give_up, "the mark does not advance");
        stage.documents("other").insert_one(doc! { "a": 1 }).await.unwrap();
        reader.assert_quiet().await;
    }
    stage.create(1).await;
    let mut again = Reader::open(&stage.feed, Some(&reader.mark)).await;
    assert_eq!(again.take(1).await, [of_user(1, version(1))]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_call_that_is_dropped_loses_nothing() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.create(1).await;
    let edit = doc! { "$set": { "nick": "edited" } };
    stage.documents("users").update_one(doc! { "_id": 1 }, edit).await.unwrap();
    let mut delivered = Vec::new();
    let give_up = Instant::now() + BOUND;
    while delivered.len() < 3 {
        assert!(Instant::now() < give_up, "{delivered:?}");
        let next = reader.changes.next(QUIET);
        if let Ok(batch) = tokio::time::timeout(std::time::Duration::from_millis(1), next).await {
            delivered.extend(batch.unwrap().changes);
        }
    }
    let numbers: Vec<_> =
        delivered.iter().map(|change| (change.version.unwrap().get(), change.by_hand)).collect();
    assert!(numbers.starts_with(&[(1, false)]), "{numbers:?}");
    assert!(numbers.iter().any(|(_, by_hand)| *by_hand), "{numbers:?}");
}

fn token(mark: &[u8]) -> String {
    let token = RawDocumentBuf::from_bytes(mark.to_vec()).unwrap();
    token.get_str("_data").unwrap().to_owned()
}

fn mark_of(token: &str) -> Vec<u8> {
    serialize_to_vec(&doc! { "_data": token }).unwrap()
}

async fn assert_lost(stage: &Stage, mark: &[u8]) {
    match stage.feed.open(Some(mark)).await {
        Err(FeedError::Lost) => {}
        Err(other) => panic!("{other:?}"),
        // The server looks for the place only when it reads.
        Ok(changes) => {
            let end = Reader { changes, mark: mark.to_vec() }.end().await;
            assert!(matches!(end, FeedError::Lost), "{end:?}");
        }
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_mark_that_cannot_be_read_is_lost() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.create(1).await;
    reader.take(1).await;
    let whole = token(&reader.mark);
    assert_lost(&stage, b"").await;
    assert_lost(&stage, b"a mark of nowhere").await;
    assert_lost(&stage, &reader.mark[..reader.mark.len() - 3]).await;
    assert_lost(&stage, &serialize_to_vec(&Document::new()).unwrap()).await;
    assert_lost(&stage, &serialize_to_vec(&doc! { "_data": 7 }).unwrap()).await;
    for broken in ["", "zz", "82", "8200", &whole[..whole.len() / 2], &whole.replace('A', "B")[2..]] {
        assert_lost(&stage, &mark_of(broken)).await;
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn mark_older_than_the_log_is_lost() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.create(1).await;
    reader.take(1).await;
    // A token begins with 82 and the seconds since 1970.
    let whole = token(&reader.mark);
    assert_lost(&stage, &mark_of(&format!("8250000000{}", &whole[10..]))).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_mark_of_a_change_that_never_was_is_lost() {
    let stage = Stage::open().await;
    stage.create(1).await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.create(2).await;
    reader.take(1).await;
    stage.create(3).await;
    // The collection's name for machines comes after 5A1004.
    let whole = token(&reader.mark);
    let (before, name) = whole.split_once("5A1004").unwrap();
    let other = if name.starts_with('0') { "1" } else { "0" };
    assert_lost(&stage, &mark_of(&format!("{before}5A1004{other}{}", &name[1..]))).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_mark_of_a_time_that_has_not_come_is_lost() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.create(1).await;
    reader.take(1).await;
    let whole = token(&reader.mark);
    assert_lost(&stage, &mark_of(&format!("82F0000000{}", &whole[10..]))).await;
}
