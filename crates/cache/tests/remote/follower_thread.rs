//! A node that follows while all threads of its calls are busy.

use std::{thread, time::Duration};

use kith_cache::remote::{FollowerConfig, FollowerThread};
use tokio::time::{Instant, sleep};

use crate::stage::Stage;

/// This is longer than trust and its grace.
const BUSY: Duration = Duration::from_secs(4);
/// The longest time that a test waits.
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn busy_runtime_does_not_end_trust() {
    let (stage, trust) = (Stage::new(), FollowerConfig::default().trust);
    let peer = stage.peer(1, false).await;
    peer.die();
    let follower = FollowerThread::start(peer.member.clone()).unwrap();
    until("it follows on the thread", || peer.member.follower_status().repairs == 2).await;
    let begun = Instant::now();
    while begun.elapsed() < BUSY {
        // No other task of this runtime gets its thread.
        thread::sleep(Duration::from_millis(10));
        let since = peer.member.follower_status().since_proof;
        assert!(since.is_some_and(|since| since < trust), "{since:?} after {:?}", begun.elapsed());
    }
    follower.end().await;
    until("trust ends with the thread", || !peer.node.trusted()).await;
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "never: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
