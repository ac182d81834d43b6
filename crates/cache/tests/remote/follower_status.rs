//! The status that a node reports while it follows the log.

use std::time::Duration;

use kith_cache::remote::FollowerConfig;
use tokio::time::sleep;

use crate::stage::Stage;

#[tokio::test(start_paused = true)]
async fn age_of_the_last_proof_is_reported() {
    let (stage, trust) = (Stage::new(), FollowerConfig::default().trust);
    let (one, other) = (stage.peer(1, false).await, stage.peer(2, false).await);
    sleep(Duration::from_secs(5)).await;
    let status = one.member.follower_status();
    assert!(status.since_proof.unwrap() < trust && status.behind == 0, "{status:?}");
    assert_eq!(status.repairs, 1, "its first baseline");
    one.die();
    other.write(&stage.store, 7, 1).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let since = one.member.follower_status().since_proof.unwrap();
    assert!(since >= Duration::from_secs(10) && since < Duration::from_secs(10) + trust, "{since:?}");
    let again = one.follow_again().await;
    sleep(Duration::from_secs(1)).await;
    assert!(one.member.follower_status().since_proof.unwrap() < trust);
    again.abort();
}
