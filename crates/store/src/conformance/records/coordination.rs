//! Cases for leases and marks.

use std::{collections::HashSet, time::Duration};

use tokio::time::{Instant, sleep};

use super::sample::each_at_once;
use crate::Stores;

/// It never runs out during a case.
const LONG: Duration = Duration::from_secs(3600);
/// Runs out during a case.
const SHORT: Duration = Duration::from_millis(50);

async fn takes(stores: &Stores, name: &str, holder: &str, lasts: Duration) -> bool {
    stores.coordination.lease(name, holder, lasts).await.unwrap()
}

async fn sets(stores: &Stores, name: &str, holder: &str, mark: &[u8]) -> bool {
    stores.coordination.set_mark(name, holder, mark).await.unwrap()
}

async fn mark(stores: &Stores, name: &str) -> Option<Vec<u8>> {
    stores.coordination.mark(name).await.unwrap()
}

/// Tries to take the lease until it succeeds.
async fn takes_at_last(stores: &Stores, name: &str, holder: &str) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !takes(stores, name, holder, LONG).await {
        assert!(Instant::now() < give_up, "the lease does not run out");
        sleep(Duration::from_millis(5)).await;
    }
}

pub async fn a_free_lease_is_taken_and_kept_from_others(stores: Stores) {
    assert!(takes(&stores, "feed", "a", LONG).await);
    assert!(!takes(&stores, "feed", "b", LONG).await);
    assert!(!takes(&stores, "feed", "", LONG).await);
}

pub async fn a_lease_is_renewed_by_its_holder(stores: Stores) {
    for _ in 0..3 {
        assert!(takes(&stores, "feed", "a", LONG).await);
    }
    assert!(!takes(&stores, "feed", "b", LONG).await);
}

pub async fn a_lease_given_back_is_free(stores: Stores) {
    assert!(takes(&stores, "feed", "a", LONG).await);
    stores.coordination.release("feed", "a").await.unwrap();
    assert!(takes(&stores, "feed", "b", LONG).await);
    assert!(!takes(&stores, "feed", "a", LONG).await);
}

pub async fn a_lease_is_given_back_by_its_holder_alone(stores: Stores) {
    stores.coordination.release("feed", "a").await.unwrap();
    assert!(takes(&stores, "feed", "a", LONG).await);
    stores.coordination.release("feed", "b").await.unwrap();
    assert!(!takes(&stores, "feed", "b", LONG).await);
}

pub async fn leases_of_different_names_are_apart(stores: Stores) {
    assert!(takes(&stores, "feed", "a", LONG).await);
    assert!(takes(&stores, "feed.2", "b", LONG).await);
    assert!(sets(&stores, "feed", "a", b"1").await);
    assert!(sets(&stores, "feed.2", "b", b"2").await);
    assert_eq!(mark(&stores, "feed").await.unwrap(), b"1");
}

pub async fn leases_that_are_held_are_named(stores: Stores) {
    let names = ["feed", "other", "gone", "never"].map(str::to_owned);
    assert_eq!(stores.coordination.held(&names).await.unwrap(), HashSet::new());
    for (name, holder) in [("feed", "a"), ("other", "b"), ("gone", "a"), ("unasked", "a")] {
        assert!(takes(&stores, name, holder, LONG).await);
    }
    stores.coordination.release("gone", "a").await.unwrap();
    let held = stores.coordination.held(&names).await.unwrap();
    assert_eq!(held, HashSet::from(["feed", "other"].map(str::to_owned)));
    assert!(takes(&stores, "feed", "a", SHORT).await);
    let give_up = Instant::now() + Duration::from_secs(20);
    while stores.coordination.held(&names[..1]).await.unwrap().len() == 1 {
        assert!(Instant::now() < give_up, "the lease does not run out");
        sleep(Duration::from_millis(5)).await;
    }
    assert!(takes(&stores, "feed", "b", LONG).await);
}

pub async fn of_many_that_ask_at_once_one_gets_the_lease(stores: Stores) {
    for name in ["one", "two", "three"] {
        let got = each_at_once(&stores, 0..16, |stores, at| async move {
            stores.coordination.lease(name, &format!("node {at}"), LONG).await.unwrap()
        })
        .await;
        assert_eq!(got.iter().filter(|got| **got).count(), 1, "{name}: {got:?}");
    }
}

pub async fn callers_of_one_name_share_lease(stores: Stores) {
    let calls = each_at_once(&stores, 0..16, |stores, _| async move {
        stores.coordination.lease("feed", "a", LONG).await.unwrap()
    });
    assert_eq!(calls.await, [true; 16]);
}

pub async fn a_lease_that_has_run_out_is_taken_over(stores: Stores) {
    assert!(takes(&stores, "feed", "a", SHORT).await);
    takes_at_last(&stores, "feed", "b").await;
    assert!(!takes(&stores, "feed", "a", LONG).await);
}

pub async fn a_renewed_lease_lasts_from_its_renewal(stores: Stores) {
    assert!(takes(&stores, "feed", "a", SHORT).await);
    assert!(takes(&stores, "feed", "a", LONG).await);
    let until = Instant::now() + 2 * SHORT;
    while Instant::now() < until {
        assert!(!takes(&stores, "feed", "b", LONG).await);
        sleep(Duration::from_millis(5)).await;
    }
    // A shorter lease shortens it.
    assert!(takes(&stores, "feed", "a", SHORT).await);
    takes_at_last(&stores, "feed", "b").await;
}

pub async fn one_of_many_takes_over_an_expired_lease(stores: Stores) {
    assert!(takes(&stores, "feed", "a", Duration::ZERO).await);
    let got = each_at_once(&stores, 0..16, |stores, at| async move {
        stores.coordination.lease("feed", &format!("node {at}"), LONG).await.unwrap()
    })
    .await;
    assert_eq!(got.iter().filter(|got| **got).count(), 1, "{got:?}");
}

pub async fn no_mark_is_there_at_first(stores: Stores) {
    assert_eq!(mark(&stores, "feed").await, None);
    assert!(takes(&stores, "feed", "a", LONG).await);
    assert_eq!(mark(&stores, "feed").await, None);
}

pub async fn a_mark_is_set_by_the_holder_alone(stores: Stores) {
    assert!(takes(&stores, "feed", "a", LONG).await);
    assert!(sets(&stores, "feed", "a", b"1").await);
    assert!(!sets(&stores, "feed", "b", b"2").await);
    assert_eq!(mark(&stores, "feed").await.unwrap(), b"1");
    assert!(sets(&stores, "feed", "a", b"3").await);
    assert_eq!(mark(&stores, "feed").await.unwrap(), b"3");
}

pub async fn a_mark_outlives_lease_and_holder(stores: Stores) {
    assert!(takes(&stores, "feed", "a", LONG).await);
    assert!(sets(&stores, "feed", "a", b"1").await);
    stores.coordination.release("feed", "a").await.unwrap();
    assert_eq!(mark(&stores, "feed").await.unwrap(), b"1");
    assert!(takes(&stores, "feed", "b", LONG).await);
    assert_eq!(mark(&stores, "feed").await.unwrap(), b"1");
}

pub async fn a_late_holder_cannot_set_its_mark(stores: Stores) {
    assert!(takes(&stores, "run out", "a", Duration::ZERO).await);
    assert!(!sets(&stores, "run out", "a", b"late").await);
    assert!(takes(&stores, "given back", "a", LONG).await);
    stores.coordination.release("given back", "a").await.unwrap();
    assert!(!sets(&stores, "given back", "a", b"late").await);
    assert!(takes(&stores, "taken over", "a", SHORT).await);
    takes_at_last(&stores, "taken over", "b").await;
    assert!(sets(&stores, "taken over", "b", b"mine").await);
    assert!(!sets(&stores, "taken over", "a", b"late").await);
    assert_eq!(mark(&stores, "run out").await, None);
    assert_eq!(mark(&stores, "given back").await, None);
    assert_eq!(mark(&stores, "taken over").await.unwrap(), b"mine");
}

pub async fn a_lease_that_was_never_taken_sets_no_mark(stores: Stores) {
    assert!(!sets(&stores, "feed", "a", b"1").await);
    assert_eq!(mark(&stores, "feed").await, None);
}

pub async fn a_mark_of_any_bytes_is_kept(stores: Stores) {
    assert!(takes(&stores, "feed", "$a.b", LONG).await);
    let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
    for bytes in [&all[..], b"", b"\0", "é".as_bytes()] {
        assert!(sets(&stores, "feed", "$a.b", bytes).await);
        assert_eq!(mark(&stores, "feed").await.unwrap(), bytes);
    }
}
