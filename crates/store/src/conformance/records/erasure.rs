//! Cases for erasure records.

use super::sample::{each_at_once, user_id};
use crate::{Erasure, ErasureCursor, Stores, Timestamp, UserId, Version};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

async fn begin(stores: &Stores, user: i64, again: bool, now: i64) -> Erasure {
    stores.erasures.begin_erasure(user_id(user), again, Timestamp(NOW.0 + now)).await.unwrap()
}

async fn save(stores: &Stores, erasure: &Erasure) -> Option<Erasure> {
    stores.erasures.save_erasure(erasure).await.unwrap()
}

async fn unfinished(stores: &Stores, after: Option<UserId>, limit: usize) -> Vec<i64> {
    let found = stores.erasures.unfinished_erasures(after, limit).await.unwrap();
    found.into_iter().map(|one| one.user.get()).collect()
}

/// How far an erasure may be.
fn further(erasure: Erasure) -> Erasure {
    let after = Some("d7-9223372036854775807".parse().unwrap());
    let cursor = ErasureCursor { after, from: i64::MAX, erased_some: true };
    Erasure { cursor, conversations: 9, conversations_done: 3, messages: 1_000, ..erasure }
}

pub async fn erasure_is_begun_once(stores: Stores) {
    let first = begin(&stores, 7, false, 1).await;
    assert_eq!(first, Erasure::first(user_id(7), None, Timestamp(NOW.0 + 1)));
    assert_eq!(begin(&stores, 7, false, 2).await, first);
    assert_eq!(begin(&stores, 7, true, 3).await, first, "it has not ended");
    assert_eq!(begin(&stores, 8, false, 4).await.user, user_id(8));
}

pub async fn ended_erasure_is_begun_again_if_asked(stores: Stores) {
    let first = begin(&stores, 7, false, 1).await;
    let ended = save(&stores, &Erasure { ended: true, ..further(first) }).await.unwrap();
    assert_eq!(begin(&stores, 7, false, 2).await, ended);
    let second = begin(&stores, 7, true, 3).await;
    assert_eq!(second, Erasure::first(user_id(7), Some(&ended), Timestamp(NOW.0 + 3)));
    assert_eq!(second.run, 2);
    assert_eq!(save(&stores, &ended).await, None, "a node that was at the first one");
    assert_eq!(unfinished(&stores, None, 10).await, [7]);
}

pub async fn one_of_many_callers_begins(stores: Stores) {
    for run in 1..=3 {
        let begun = each_at_once(&stores, 0..8, |stores, caller| async move {
            begin(&stores, 7, true, 10 * run + caller).await
        })
        .await;
        assert!(begun.iter().all(|one| *one == begun[0] && one.run == run), "{begun:?}");
        save(&stores, &Erasure { ended: true, ..begun[0] }).await.unwrap();
    }
}

pub async fn progress_is_saved_by_one_node(stores: Stores) {
    let first = begin(&stores, 7, false, 1).await;
    let saved = save(&stores, &further(first)).await.unwrap();
    assert_eq!(saved, Erasure { version: first.version.next(), ..further(first) });
    assert_eq!(begin(&stores, 7, false, 2).await, saved);
    assert_eq!(save(&stores, &first).await, None, "another node has gone on");
    assert_eq!(begin(&stores, 7, false, 3).await, saved);
    let absent = Erasure { version: Version::NONE, ..Erasure::first(user_id(8), None, NOW) };
    assert_eq!(save(&stores, &absent).await, None);
}

pub async fn unfinished_ones_are_listed(stores: Stores) {
    let mut of_nine = None;
    for user in [9, 7, 100, 8] {
        of_nine = of_nine.or(Some(begin(&stores, user, false, 1).await));
    }
    assert_eq!(unfinished(&stores, None, 10).await, [7, 8, 9, 100]);
    assert_eq!(unfinished(&stores, None, 2).await, [7, 8]);
    save(&stores, &Erasure { ended: true, ..of_nine.unwrap() }).await.unwrap();
    assert_eq!(unfinished(&stores, Some(user_id(7)), 10).await, [8, 100]);
}
