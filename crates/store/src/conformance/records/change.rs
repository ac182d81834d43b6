//! Cases for changes that are kept for other systems.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::sample::{bare_user, create_user, user_id};
use crate::{ChangesEntry, ChangesExtent, FeedChange, FeedRecord, KeptPositions, Stores, Timestamp, Version};

/// Longer than any case.
const LONG: Duration = Duration::from_secs(3_600);
/// The feed of a store whose changes are written by the reader of a feed.
const FEED: &str = "case";

async fn extent(stores: &Stores) -> ChangesExtent {
    stores.changes.changes_extent().await.unwrap().expect("changes are kept")
}

/// The one feed and its positions.
async fn feed(stores: &Stores) -> (String, KeptPositions) {
    let mut feeds = extent(stores).await.feeds.into_iter();
    let feed = feeds.next().expect("a feed");
    assert_eq!(feeds.next(), None);
    feed
}

/// Changes users with these ids, one after the other: each makes an entry.
async fn change(stores: &Stores, ids: std::ops::RangeInclusive<i64>) {
    for id in ids {
        let Some(writer) = &stores.changes_writer else {
            create_user(stores, bare_user(id, &format!("user {id}"))).await;
            continue;
        };
        let last = extent(stores).await.feeds.get(FEED).map_or(0, |positions| positions.last);
        let change = FeedChange {
            record: FeedRecord::User(user_id(id)),
            version: Some(Version::FIRST),
            by_hand: false,
        };
        let entry = ChangesEntry {
            feed: FEED.to_owned(),
            number: last + 1,
            written: Timestamp::now(),
            changes: vec![change],
        };
        assert!(writer.append_changes(&entry).await.unwrap());
        assert!(!writer.append_changes(&entry).await.unwrap(), "its number is taken");
    }
}

/// All entries above a number, and the ids of the users in them.
async fn users_after(stores: &Stores, after: i64) -> (Vec<ChangesEntry>, Vec<i64>) {
    let (feed, _) = feed(stores).await;
    let entries = stores.changes.changes_after(&feed, after).await.unwrap();
    let users = entries.iter().flat_map(|entry| &entry.changes).map(|change| match change.record {
        FeedRecord::User(user) => user.get(),
        record => panic!("{record:?}"),
    });
    let users = users.collect();
    (entries, users)
}

pub async fn nothing_is_kept_at_first(stores: Stores) {
    assert_eq!(stores.changes.changes_extent().await.unwrap(), None);
    create_user(&stores, bare_user(1, "ann")).await;
    assert_eq!(stores.changes.changes_extent().await.unwrap(), None);
    assert!(!stores.changes.trim_changes(Duration::ZERO, 0).await.unwrap());
}

pub async fn changes_are_kept_in_order(stores: Stores) {
    create_user(&stores, bare_user(1, "before")).await;
    stores.changes.begin_generation(false).await.unwrap();
    change(&stores, 2..=9).await;
    let (name, positions) = feed(&stores).await;
    let (entries, users) = users_after(&stores, positions.first - 1).await;
    assert_eq!(users, [2, 3, 4, 5, 6, 7, 8, 9]);
    assert!(entries.iter().map(|entry| entry.number).eq(positions.first..=positions.last));
    assert!(entries.iter().all(|entry| entry.feed == name && entry.changes.len() == 1));
    let change = entries[0].changes[0];
    assert_eq!((change.version, change.by_hand), (Some(Version::FIRST), false));
    assert_eq!(users_after(&stores, positions.first + 4).await.1, [7, 8, 9]);
    assert_eq!(users_after(&stores, positions.last).await.1, [0; 0]);
    assert_eq!(stores.changes.changes_after("another", 0).await.unwrap(), []);
}

pub async fn one_read_has_a_bound(stores: Stores) {
    stores.changes.begin_generation(false).await.unwrap();
    change(&stores, 1..=70).await;
    let (_, positions) = feed(&stores).await;
    let (entries, users) = users_after(&stores, positions.first - 1).await;
    assert_eq!(users, (1..=64).collect::<Vec<_>>());
    assert_eq!(users_after(&stores, entries[63].number).await.1, [65, 66, 67, 68, 69, 70]);
}

pub async fn generation_forgets_the_earlier_one(stores: Stores) {
    stores.changes.begin_generation(false).await.unwrap();
    change(&stores, 1..=3).await;
    let (before, (_, first)) = (extent(&stores).await, feed(&stores).await);
    stores.changes.begin_generation(true).await.unwrap();
    let after = extent(&stores).await;
    assert_ne!(after.generation, before.generation);
    assert_eq!((before.dialogs, after.dialogs), (false, true));
    let (_, empty) = feed(&stores).await;
    assert_eq!(empty, KeptPositions { first: first.last + 1, last: first.last });
    assert_eq!(users_after(&stores, 0).await.1, [0; 0]);
    change(&stores, 4..=4).await;
    assert_eq!(feed(&stores).await.1, KeptPositions { first: first.last + 1, last: first.last + 1 });
    assert_eq!(users_after(&stores, 0).await.1, [4]);
}

pub async fn ended_changes_begin_anew_above(stores: Stores) {
    stores.changes.begin_generation(false).await.unwrap();
    change(&stores, 1..=3).await;
    let (before, (name, first)) = (extent(&stores).await, feed(&stores).await);
    stores.changes.end_changes().await.unwrap();
    assert_eq!(stores.changes.changes_extent().await.unwrap(), None);
    assert_eq!(stores.changes.changes_after(&name, 0).await.unwrap(), []);
    stores.changes.end_changes().await.unwrap();
    if stores.changes_writer.is_none() {
        create_user(&stores, bare_user(4, "not kept")).await;
    }
    stores.changes.begin_generation(false).await.unwrap();
    assert_ne!(extent(&stores).await.generation, before.generation);
    change(&stores, 5..=5).await;
    let (entries, users) = users_after(&stores, 0).await;
    assert_eq!((users, entries[0].number > first.last), (vec![5], true));
}

pub async fn trim_leaves_the_last_entry(stores: Stores) {
    stores.changes.begin_generation(false).await.unwrap();
    change(&stores, 1..=5).await;
    let (_, first) = feed(&stores).await;
    assert!(!stores.changes.trim_changes(LONG, u64::MAX).await.unwrap());
    assert_eq!(feed(&stores).await.1, first, "none is too old, and they are small");
    // Their times have to be before the present one.
    let give_up = Instant::now() + Duration::from_secs(20);
    while feed(&stores).await.1.first < first.last {
        assert!(Instant::now() < give_up, "old entries stay");
        stores.changes.trim_changes(Duration::ZERO, u64::MAX).await.unwrap();
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(feed(&stores).await.1, KeptPositions { first: first.last, last: first.last });
    assert_eq!(users_after(&stores, first.first - 1).await.1, [5]);
    change(&stores, 6..=6).await;
    assert_eq!(users_after(&stores, first.last).await.1, [6], "the next position follows");
}

pub async fn trim_keeps_within_the_bytes(stores: Stores) {
    stores.changes.begin_generation(false).await.unwrap();
    change(&stores, 1..=20).await;
    let (_, all) = feed(&stores).await;
    while stores.changes.trim_changes(LONG, 200).await.unwrap() {}
    let (_, left) = feed(&stores).await;
    assert!(left.first > all.first && left.last == all.last, "{left:?}");
    while stores.changes.trim_changes(LONG, 0).await.unwrap() {}
    assert_eq!(feed(&stores).await.1, KeptPositions { first: all.last, last: all.last });
}
