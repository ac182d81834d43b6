use std::{sync::Arc, time::Duration};

use kith_lab::{
    peers::{Peers, Shape, Store},
    proxy::Mode,
};
use tokio::task::JoinSet;

use crate::stage::{alone, size, until};

const SOON: Duration = Duration::from_secs(5);
/// On each node.
const CALLERS: usize = 2_500;

/// So many on each node from that one on, all at once. Returns how many got no answer, or a wrong one.
async fn callers(peers: &Peers, from: usize, key: u64) -> usize {
    let mut calls = JoinSet::new();
    for node in &peers.nodes[from..] {
        for _ in 0..CALLERS {
            let peer = Arc::clone(&node.peer);
            calls.spawn(async move { peer.read(key).await });
        }
    }
    let answers = calls.join_all().await;
    answers.iter().filter(|answer| !answer.as_ref().is_ok_and(|version| *version == 1)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_cold_key_is_loaded_once_by_all_nodes_together() {
    let _turn = alone().await;
    let (store, rounds) = (Store::new(Duration::from_millis(30), 1), size(5, 20));
    (0..rounds).for_each(|key| assert_eq!(store.commit(key), 1));
    let peers = Peers::start(4, &store, &Shape::default()).await.unwrap();
    let mut loads = Vec::new();
    for key in 0..rounds {
        let before = store.loads();
        assert_eq!(callers(&peers, 0, key).await, 0);
        loads.push(store.loads() - before);
    }
    println!("one cold key, 4 nodes x {CALLERS} callers: {} loads in {rounds} rounds", store.loads());
    loads.sort_unstable();
    // A machine that is too busy to end a load in time lets another node take it over.
    assert_eq!(loads[loads.len() / 2], 1, "{loads:?}");
    assert!(loads.iter().all(|loads| *loads <= 2), "{loads:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_of_a_killed_node_is_made_once_more() {
    let _turn = alone().await;
    let store = Store::new(Duration::from_millis(5), 1);
    assert_eq!(store.commit(7), 1);
    let peers = Peers::start(4, &store, &Shape::default()).await.unwrap();
    store.hold(true);
    let holder = Arc::clone(peers.peer(0));
    let held = tokio::spawn(async move { holder.read(7).await });
    until("the holder loads", SOON, async || store.loading() == 1).await;
    peers.peer(0).kill();
    peers.nodes[0].link.set(Mode::Refuse);
    let others = callers(&peers, 1, 7);
    tokio::pin!(others);
    let failed = tokio::select! {
        failed = &mut others => failed,
        () = until("another loads", SOON, async || store.loading() == 2) => {
            store.hold(false);
            others.await
        }
    };
    store.hold(false);
    println!("the same with the holder killed: {} loads, {failed} failed", store.loads());
    assert!(store.loads() <= 2, "{} loads", store.loads());
    assert_eq!(failed, 0);
    held.abort();
}
