//! Leases of two processes over one database.

use std::time::{Duration, Instant};

use kith_store::Stores;
use kith_store_cluster::connect;
use tokio::time::sleep;

use crate::server;

const BOUND: Duration = Duration::from_secs(20);

/// Two processes, each with what it knows of the leases.
async fn processes() -> (Stores, Stores, impl Sized) {
    let options = server::options();
    let (one, cleaning) = server::open_with(options.clone()).await;
    (one, connect(options).await.unwrap().stores(), cleaning)
}

/// Asks for a lease until the answer is this one.
async fn answers(stores: &Stores, name: &str, holder: &str, lasts: Duration, expected: bool) {
    let begun = Instant::now();
    while stores.coordination.lease(name, holder, lasts).await.unwrap() != expected {
        assert!(begun.elapsed() < BOUND, "{name} for {holder} is never {expected}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn lease_given_back_there_is_taken_here() {
    let (here, there, _cleaning) = processes().await;
    let lasts = Duration::from_secs(3600);
    assert!(there.coordination.lease("one", "there", lasts).await.unwrap());
    assert!(!here.coordination.lease("one", "here", lasts).await.unwrap());
    there.coordination.release("one", "there").await.unwrap();
    answers(&here, "one", "here", lasts, true).await;
    assert!(!there.coordination.lease("one", "there", lasts).await.unwrap());
}

/// The other process takes a lease in the name of this one, so that only a renewal can show it.
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn lost_lease_is_noticed_when_others_are_renewed() {
    let (here, there, _cleaning) = processes().await;
    let lasts = Duration::from_secs(2);
    for name in ["kept", "lost"] {
        assert!(here.coordination.lease(name, "here", lasts).await.unwrap());
    }
    there.coordination.release("lost", "here").await.unwrap();
    answers(&there, "lost", "there", Duration::from_secs(3600), true).await;
    answers(&here, "lost", "here", lasts, false).await;
    answers(&here, "kept", "here", lasts, true).await;
    assert!(!there.coordination.lease("kept", "there", lasts).await.unwrap());
}

/// Renewals of one process go on while the other one asks for the same lease.
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn lease_that_is_wanted_never_ends() {
    let (here, there, _cleaning) = processes().await;
    let lasts = Duration::from_secs(2);
    let begun = Instant::now();
    while begun.elapsed() < lasts * 3 / 2 {
        for name in ["one", "two"] {
            assert!(here.coordination.lease(name, "here", lasts).await.unwrap());
            assert!(!there.coordination.lease(name, "there", lasts).await.unwrap());
        }
        sleep(lasts / 40).await;
    }
    answers(&there, "one", "there", lasts, true).await;
}
