//! What a node knows of how it follows.

use std::time::Duration;

use kith_cache::remote::Following;
use tokio::time::sleep;

use crate::stage::Stage;

#[tokio::test(start_paused = true)]
async fn age_of_the_last_proof_is_reported() {
    let (stage, trust) = (Stage::new(), Following::default().trust);
    let (one, other) = (stage.peer(1, false).await, stage.peer(2, false).await);
    sleep(Duration::from_secs(5)).await;
    let followed = one.member.followed();
    assert!(followed.since_proof.unwrap() < trust && followed.behind == 0, "{followed:?}");
    assert_eq!(followed.repairs, 1, "its first baseline");
    one.die();
    other.write(&stage.store, 7, 1).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let since = one.member.followed().since_proof.unwrap();
    assert!(since >= Duration::from_secs(10) && since < Duration::from_secs(10) + trust, "{since:?}");
    let again = one.follow_again().await;
    sleep(Duration::from_secs(1)).await;
    assert!(one.member.followed().since_proof.unwrap() < trust);
    again.abort();
}
