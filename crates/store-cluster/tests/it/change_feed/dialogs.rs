//! Dialogs and records of conversations.

use kith_store::{
    DialogKey, DialogMark, DialogPatch, FeedChange, FeedRecord, MarkBase, MarkKind, ReadMark, SeqRange,
    StoreError, Timestamp,
};
use mongodb::bson::doc;

use super::{Reader, Stage, user_id, version, write};

fn key(user: i64) -> DialogKey {
    DialogKey { user: user_id(user), conversation: "g9".parse().unwrap() }
}

/// A change that this program made.
fn of_dialog(user: i64, number: i64) -> FeedChange {
    FeedChange { record: FeedRecord::Dialog(key(user)), version: Some(version(number)), by_hand: false }
}

fn of_conversation(number: i64) -> FeedChange {
    let record = FeedRecord::Conversation(key(7).conversation);
    FeedChange { record, version: Some(version(number)), by_hand: false }
}

async fn mark(stage: &Stage, kind: MarkKind) -> Result<MarkBase, StoreError> {
    let mark = DialogMark { key: key(7), mark: ReadMark::direct(kind), expected: None };
    stage.stores.dialogs.mark_dialogs(&[mark], Timestamp::now()).await.unwrap().remove(0)
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn every_write_of_a_dialog_has_its_version() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.stores.dialogs.make_dialogs(&[key(7), key(8)], Timestamp::now()).await.unwrap();
    mark(&stage, MarkKind::UpTo(5)).await.unwrap();
    mark(&stage, MarkKind::Ranges(vec![SeqRange { first: 9, last: 9 }])).await.unwrap();
    mark(&stage, MarkKind::UpTo(8)).await.unwrap();
    // Changes nothing.
    mark(&stage, MarkKind::UpTo(8)).await.unwrap();
    mark(&stage, MarkKind::Hidden(3)).await.unwrap();
    stage.stores.dialogs.make_dialogs(&[key(7), key(8)], Timestamp::now()).await.unwrap();
    // All that there is, so that the reduction removes more than it leaves.
    let settings = DialogPatch {
        max_seq: Some(Some(9)),
        pinned: Some(Some(Timestamp(5))),
        do_not_disturb: Some(true),
        marked_unread: Some(true),
        ext: Some(vec![7; 1_000]),
        ..DialogPatch::default()
    };
    stage.stores.dialogs.change_dialog(key(7), settings, write()).await.unwrap();
    for _ in 0..2 {
        let ends = [(key(7).conversation, 9)];
        stage.stores.dialogs.reduce_dialogs(user_id(7), &ends, Timestamp::now()).await.unwrap();
    }
    let mut expected = vec![of_dialog(7, 1), of_dialog(8, 1)];
    expected.extend((2..=6).map(|number| of_dialog(7, number)));
    assert_eq!(reader.take(expected.len()).await, expected);
    reader.assert_quiet().await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn every_write_of_a_conversation_has_its_version() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    for (min_seq, trim) in [(5, false), (4, false), (6, false), (6, true), (6, true)] {
        stage.stores.conversations.raise_min_seq(key(7).conversation, min_seq, trim).await.unwrap();
    }
    assert_eq!(reader.take(3).await, [1, 2, 3].map(of_conversation));
    reader.assert_quiet().await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn edited_dialog_is_given_a_version() {
    let stage = Stage::open().await;
    mark(&stage, MarkKind::UpTo(5)).await.unwrap();
    let mut reader = Reader::open(&stage.feed, None).await;
    let id = doc! { "_id": { "u": 7_i64, "c": "g9" } };
    for (edit, number) in [(doc! { "pin": 1_i64 }, 2), (doc! { "v": 1_i64 }, 0)] {
        stage.documents("dialogs").update_one(id.clone(), doc! { "$set": edit }).await.unwrap();
        let given = reader.given(FeedRecord::Dialog(key(7))).await.get();
        assert!(given == number || number == 0 && given > 2, "{given}");
    }
    let found = stage.stores.dialogs.dialogs(&[key(7)]).await.unwrap();
    assert_eq!((found[0].pinned, found[0].read.read_seq()), (Some(Timestamp(1)), 5));
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn edited_conversation_is_given_a_version() {
    let stage = Stage::open().await;
    stage.stores.conversations.raise_min_seq(key(7).conversation, 5, false).await.unwrap();
    let mut reader = Reader::open(&stage.feed, None).await;
    let edit = doc! { "$set": { "min": 3_i64 } };
    stage.documents("conversations").update_one(doc! { "_id": "g9" }, edit).await.unwrap();
    assert_eq!(reader.given(FeedRecord::Conversation(key(7).conversation)).await, version(2));
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn damaged_dialog_fails_its_own_mark_alone() {
    let stage = Stage::open().await;
    let marks = |seq| {
        [7, 8].map(|user| DialogMark {
            key: key(user),
            mark: ReadMark::direct(MarkKind::UpTo(seq)),
            expected: None,
        })
    };
    let dialogs = &stage.stores.dialogs;
    dialogs.mark_dialogs(&marks(5), Timestamp::now()).await.unwrap();
    let edit = doc! { "$set": { "ur": ["1"] } };
    stage.documents("dialogs").update_one(doc! { "_id.u": 7 }, edit).await.unwrap();
    let made = dialogs.mark_dialogs(&marks(7), Timestamp::now()).await.unwrap();
    assert!(matches!(made[..], [Err(StoreError::Corrupt { .. }), Ok(_)]), "{made:?}");
    assert_eq!(dialogs.dialogs(&[key(8)]).await.unwrap()[0].read.read_seq(), 7);
}
