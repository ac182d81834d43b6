//! Kept changes in MongoDB, beyond what every backend does.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, SystemTime};

use kith_store::{
    ChangesEntry, ChangesExtent, FeedChange, FeedRecord, KeptPositions, RestoreSkips, Stores, Timestamp,
    Version, conformance::sample::user_id,
};
use kith_store_cluster::connect;
use mongodb::bson::{Document, doc};

use crate::server;

/// Longer than any case.
const LONG: Duration = Duration::from_secs(3_600);

fn entry(feed: &str, number: i64, written: Timestamp) -> ChangesEntry {
    let record = FeedRecord::User(user_id(number));
    let change = FeedChange { record, version: Some(Version::FIRST), by_hand: false };
    ChangesEntry { feed: feed.to_owned(), number, written, changes: vec![change] }
}

/// Whether this entry was stored.
async fn append(stores: &Stores, feed: &str, number: i64, written: Timestamp) -> bool {
    let writer = stores.changes_writer.as_ref().unwrap();
    writer.append_changes(&entry(feed, number, written)).await.unwrap()
}

async fn extent(stores: &Stores) -> ChangesExtent {
    stores.changes.changes_extent().await.unwrap().unwrap()
}

async fn kept(stores: &Stores, feed: &str) -> (i64, i64) {
    let KeptPositions { first, last } = extent(stores).await.feeds[feed];
    (first, last)
}

async fn numbers_after(stores: &Stores, feed: &str, after: i64) -> Vec<i64> {
    let entries = stores.changes.changes_after(feed, after).await.unwrap();
    entries.iter().map(|entry| entry.number).collect()
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn restore_begins_a_generation_if_kept() {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    let handle = connect(options).await.unwrap();
    let skips = RestoreSkips::since(SystemTime::now());
    handle.finish_restore(skips).await.unwrap();
    assert_eq!(stores.changes.changes_extent().await.unwrap(), None);
    stores.changes.begin_generation(true).await.unwrap();
    assert!(append(&stores, "a", 1, Timestamp::now()).await);
    let before = extent(&stores).await;
    handle.finish_restore(RestoreSkips::since(SystemTime::now())).await.unwrap();
    let after = extent(&stores).await;
    assert_ne!(after.generation, before.generation);
    assert!(after.dialogs);
    assert_eq!(kept(&stores, "a").await, (2, 1));
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn feeds_are_numbered_and_trimmed_apart() {
    let (stores, _guard) = server::open_with(server::options()).await;
    stores.changes.begin_generation(false).await.unwrap();
    let now = Timestamp::now();
    let old = now.before(LONG * 2);
    for number in 1..=3 {
        assert!(append(&stores, "a", number, old).await && append(&stores, "b", number, now).await);
    }
    assert!(append(&stores, "a", 4, now).await && append(&stores, "a", 5, now).await);
    assert!(!append(&stores, "a", 3, now).await, "another entry has this number");
    assert_eq!([kept(&stores, "a").await, kept(&stores, "b").await], [(1, 5), (1, 3)]);
    assert!(!stores.changes.trim_changes(LONG, u64::MAX).await.unwrap());
    assert_eq!([kept(&stores, "a").await, kept(&stores, "b").await], [(4, 5), (1, 3)]);
    assert_eq!(numbers_after(&stores, "a", 0).await, [4, 5]);
    while stores.changes.trim_changes(LONG, 0).await.unwrap() {}
    assert_eq!([kept(&stores, "a").await, kept(&stores, "b").await], [(5, 5), (3, 3)]);
}

/// The clock of a writer may go back.
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn trim_leaves_no_hole() {
    let (stores, _guard) = server::open_with(server::options()).await;
    stores.changes.begin_generation(false).await.unwrap();
    let now = Timestamp::now();
    let old = now.before(LONG * 2);
    for (number, written) in [(1, old), (2, now), (3, old), (4, old)] {
        assert!(append(&stores, "a", number, written).await);
    }
    stores.changes.trim_changes(LONG, u64::MAX).await.unwrap();
    assert_eq!(numbers_after(&stores, "a", 0).await, [2, 3, 4]);
}

/// A leader that was suspended until its number was trimmed can store it.
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn entry_before_the_kept_ones_is_not_seen() {
    let (stores, _guard) = server::open_with(server::options()).await;
    stores.changes.begin_generation(false).await.unwrap();
    for number in 1..=5 {
        append(&stores, "a", number, Timestamp(0)).await;
    }
    stores.changes.trim_changes(LONG, u64::MAX).await.unwrap();
    assert_eq!(kept(&stores, "a").await, (5, 5));
    assert!(append(&stores, "a", 3, Timestamp::now()).await);
    assert_eq!(kept(&stores, "a").await, (5, 5));
    assert_eq!(numbers_after(&stores, "a", 2).await, [5]);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn more_than_a_step_is_removed_in_steps() {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    let changes = server::database(&options).await.collection::<Document>("changes");
    let entry = |number: i64| doc! { "f": "a", "n": number, "t": 0_i64 };
    changes.insert_many((1..=2_500).map(entry)).await.unwrap();
    stores.changes.begin_generation(false).await.unwrap();
    assert_eq!(kept(&stores, "a").await, (2_501, 2_500));
    let mut left = Vec::new();
    while stores.changes.trim_changes(LONG, u64::MAX).await.unwrap() {
        left.push(changes.count_documents(doc! {}).await.unwrap());
    }
    assert_eq!(left, [1_500, 500]);
    assert_eq!(changes.count_documents(doc! {}).await.unwrap(), 0);
    assert_eq!(kept(&stores, "a").await, (2_501, 2_500), "positions continue");
    changes.insert_many((2_501..=5_000).map(entry)).await.unwrap();
    stores.changes.end_changes().await.unwrap();
    assert_eq!(changes.count_documents(doc! {}).await.unwrap(), 0);
}

/// The number of entries does not matter.
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn extent_looks_at_an_entry_of_each_feed() {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    let database = server::database(&options).await;
    let entry = |feed: &str, number: i64| doc! { "f": feed, "n": number, "t": 0_i64 };
    let all: Vec<Document> =
        (1..=500).flat_map(|number| ["a", "b"].map(|feed| entry(feed, number))).collect();
    stores.changes.begin_generation(false).await.unwrap();
    database.collection::<Document>("changes").insert_many(all).await.unwrap();
    database.run_command(doc! { "profile": 2 }).await.unwrap();
    assert_eq!(extent(&stores).await.feeds.len(), 2);
    let notes = database.collection::<Document>("system.profile");
    let filter = doc! { "ns": format!("{}.changes", database.name()), "command.aggregate": "changes" };
    let note = notes.find_one(filter).await.unwrap().unwrap();
    assert_eq!(note.get_str("planSummary").unwrap(), "DISTINCT_SCAN { f: 1, n: 1 }", "{note}");
    assert!(note.get_i32("keysExamined").unwrap() <= 4, "{note}");
}
