use std::time::Duration;

use kith_cache::Tier;
use tokio::time::{Instant, sleep};

use crate::stage::Stage;

/// This is longer than a node trusts its memory after a single probe.
const FLOOD: Duration = Duration::from_millis(2_500);

#[tokio::test]
async fn foreign_messages_do_not_stop_probes() {
    let stage = Stage::new();
    let peer = stage.peer(1, false).await;
    stage.store.put(7, 1);
    peer.read(7).await;
    stage.server.flood(true);
    let until = Instant::now() + FLOOD;
    while Instant::now() < until {
        assert!(peer.node.trusted());
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(peer.read(7).await, (Some(1), Some(Tier::Memory)));
}
