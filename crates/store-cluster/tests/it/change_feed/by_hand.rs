//! Tests what a person edits past this program.

use std::{collections::HashMap, sync::Arc};

use kith_store::{FeedChange, FeedRecord, UserPatch, Version};
use mongodb::bson::{Bson, doc};
use tokio::time::Instant;

use super::{BOUND, QUIET, Reader, Stage, group_id, new_group, of_user, user_id, version, version_of, write};

fn by_hand(id: i64, version: Option<Version>) -> FeedChange {
    FeedChange { record: FeedRecord::User(user_id(id)), version, by_hand: true }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn edit_without_new_version_gets_one() {
    let stage = Stage::open().await;
    stage.create(1).await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let edit = doc! { "$set": { "nick": "edited" } };
    stage.documents("users").update_one(doc! { "_id": 1 }, edit).await.unwrap();
    // The edit, and what gave it its version.
    assert_eq!(reader.take(2).await, [by_hand(1, Some(version(2))), of_user(1, version(2))]);
    reader.assert_quiet().await;
    let user = stage.user(1).await;
    assert_eq!((user.version, &*user.nick_name), (version(2), "edited"));
    assert_eq!(stage.update(1, 9).await, version(3));
    assert_eq!(reader.take(1).await, [of_user(1, version(3))]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn higher_version_replaces_one_set_by_hand() {
    let stage = Stage::open().await;
    let edits = [
        doc! { "$inc": { "v": -3_i64 } },
        doc! { "$set": { "v": 2_i64 } },
        doc! { "$set": { "nick": "edited" }, "$inc": { "v": 1_i64 } },
        doc! { "$set": { "v": (1_i64 << 62) - 1 } },
        doc! { "$set": { "v": i64::MAX } },
        doc! { "$unset": { "v": "" } },
    ];
    for (id, edit) in (1..).zip(edits) {
        stage.create(id).await;
        for age in 1..=5 {
            stage.update(id, age).await;
        }
        let mut reader = Reader::open(&stage.feed, None).await;
        stage.documents("users").update_one(doc! { "_id": id }, edit.clone()).await.unwrap();
        let given = reader.given(FeedRecord::User(user_id(id))).await;
        assert!(given > version(6) && given.get() < 1 << 62, "{edit}: {given}");
        assert_eq!(stage.user(id).await.version, given, "{edit}");
        assert_eq!(stage.update(id, 9).await, given.next(), "{edit}");
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn edited_group_is_given_a_version() {
    let stage = Stage::open().await;
    stage.stores.groups.create_group(new_group(1), write()).await.unwrap();
    let mut reader = Reader::open(&stage.feed, None).await;
    for (edit, least) in [(doc! { "$pop": { "tags": 1 } }, 2), (doc! { "$set": { "v": 5_i64 } }, 6)] {
        stage.documents("groups").update_one(doc! { "_id": 1 }, edit).await.unwrap();
        let given = reader.given(FeedRecord::Group(group_id(1))).await;
        assert!(given >= version(least) && (least > 2 || given == version(2)), "{given}");
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn reinserted_document_is_given_a_higher_version() {
    let stage = Stage::open().await;
    stage.create(1).await;
    stage.update(1, 9).await;
    let (users, document) = (stage.documents("users"), stage.document(1).await);
    let mut reader = Reader::open(&stage.feed, None).await;
    users.delete_one(doc! { "_id": 1 }).await.unwrap();
    users.insert_one(document).await.unwrap();
    let delivered = reader.take(3).await;
    let given = delivered[1].version.unwrap();
    assert!(given > version(2), "{given}");
    assert_eq!(delivered[1..], [by_hand(1, Some(given)), of_user(1, given)]);
    assert!(delivered[0].by_hand);
    assert_eq!(stage.user(1).await.age, 9);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn each_of_many_edits_gets_a_version() {
    let stage = Stage::open().await;
    let documents = (1..=300_i64).map(|id| doc! { "_id": id, "v": id, "name": format!("u{id}") });
    stage.documents("users").insert_many(documents).await.unwrap();
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.documents("users").update_many(doc! {}, doc! { "$set": { "nick": "all" } }).await.unwrap();
    let delivered = reader.take(600).await;
    for id in 1..=300 {
        let raised = version(id + 1);
        let of_this: Vec<_> =
            delivered.iter().filter(|change| change.record == FeedRecord::User(user_id(id))).collect();
        assert_eq!(of_this, [&by_hand(id, Some(raised)), &of_user(id, raised)]);
        assert_eq!(stage.user(id).await.version, raised);
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn repeated_edits_get_rising_versions() {
    let stage = Stage::open().await;
    stage.create(1).await;
    let mut reader = Reader::open(&stage.feed, None).await;
    for nick in ["a", "b", "c"] {
        let edit = doc! { "$set": { "nick": nick } };
        stage.documents("users").update_one(doc! { "_id": 1 }, edit).await.unwrap();
    }
    let (mut edits, give_up) = (0, Instant::now() + BOUND);
    while edits < 3 {
        assert!(Instant::now() < give_up, "{edits} edits were delivered");
        let delivered = reader.next(QUIET).await.unwrap();
        assert!(delivered.iter().all(|change| change.version > Some(version(1))), "{delivered:?}");
        edits += delivered.iter().filter(|change| change.by_hand).count();
    }
    assert_eq!(&*stage.user(1).await.nick_name, "c");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn removed_document_is_fed_without_version() {
    let stage = Stage::open().await;
    stage.create(1).await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.documents("users").delete_one(doc! { "_id": 1 }).await.unwrap();
    stage.create(1).await;
    assert_eq!(reader.take(2).await, [by_hand(1, None), of_user(1, version(1))]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn edited_then_removed_has_no_version() {
    let stage = Stage::open().await;
    stage.create(1).await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let edit = doc! { "$set": { "nick": "edited" } };
    stage.documents("users").update_one(doc! { "_id": 1 }, edit).await.unwrap();
    stage.documents("users").delete_one(doc! { "_id": 1 }).await.unwrap();
    assert_eq!(reader.take(2).await, [by_hand(1, None), by_hand(1, None)]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn replaced_document_gets_a_higher_version() {
    let stage = Stage::open().await;
    stage.create(1).await;
    for age in 1..=5 {
        stage.update(1, age).await;
    }
    let mut reader = Reader::open(&stage.feed, None).await;
    let older = doc! { "_id": 1, "v": 2_i64, "name": "user-1", "name_key": "user-1", "nick": "replaced" };
    stage.documents("users").replace_one(doc! { "_id": 1 }, older).await.unwrap();
    let given = reader.given(FeedRecord::User(user_id(1))).await;
    assert!(given > version(6), "{given}");
    let user = stage.user(1).await;
    assert_eq!((user.version, &*user.nick_name), (given, "replaced"));
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn document_added_by_hand_is_given_a_version() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let added = [doc! { "_id": 1, "name": "ann" }, doc! { "_id": 2_i64, "v": 4_i64, "name": "bob" }];
    for (id, mut document) in (1..).zip(added) {
        document.insert("name_key", document.get_str("name").unwrap().to_owned());
        stage.documents("users").insert_one(document).await.unwrap();
        let given = reader.given(FeedRecord::User(user_id(id))).await;
        assert!(given > version(3 * id - 2), "{given}");
        assert_eq!(stage.user(id).await.version, given);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn edits_among_writes_keep_versions_unique() {
    let stage = Stage::open().await;
    stage.create(1).await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let (users, documents) = (Arc::clone(&stage.stores.users), stage.documents("users"));
    let writing = tokio::spawn(async move {
        let mut left = HashMap::new();
        for age in 0..100 {
            let patch = UserPatch { age: Some(age), ..UserPatch::default() };
            let written = users.update_user(user_id(1), patch, write()).await.unwrap();
            assert!(left.insert(version_of(&written), age).is_none(), "a version was given twice");
        }
    });
    let editing = tokio::spawn(async move {
        for count in 0..50 {
            let edit = doc! { "$set": { "nick": format!("edit {count}") } };
            documents.update_one(doc! { "_id": 1 }, edit).await.unwrap();
        }
    });
    let (mut edits, mut last) = (0, version(1));
    let (mut done, give_up) = (false, Instant::now() + BOUND);
    while !done {
        assert!(Instant::now() < give_up, "{edits} edits were delivered, and versions up to {last}");
        for change in reader.next(QUIET).await.unwrap() {
            edits += usize::from(change.by_hand);
            let given = change.version.unwrap();
            if !change.by_hand {
                assert_eq!(given, last.next(), "a version was left out or delivered twice");
                last = given;
            }
        }
        done = writing.is_finished()
            && editing.is_finished()
            && stage.user(1).await.version == last
            && edits == 50;
    }
    writing.await.unwrap();
    editing.await.unwrap();
    assert_eq!(&*stage.user(1).await.nick_name, "edit 49");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn document_that_is_no_record_is_left_alone() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    for id in [
        Bson::from("7"),
        Bson::Int64(-7),
        Bson::Double(0.5),
        Bson::ObjectId(mongodb::bson::oid::ObjectId::new()),
    ] {
        stage.documents("groups").insert_one(doc! { "_id": id, "name": "x" }).await.unwrap();
    }
    stage.create(1).await;
    assert_eq!(reader.take(1).await, [of_user(1, version(1))]);
}
