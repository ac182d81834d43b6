use std::{sync::Arc, time::Duration};

use kith_lab::{
    peers::{Peers, Shape, Store},
    proxy::Mode,
};
use tokio::task::JoinSet;

use crate::stage::{alone, size, until};

const SOON: Duration = Duration::from_secs(5);

async fn callers(peers: &Peers, from: usize, each: u64) -> u64 {
    let mut calls = JoinSet::new();
    for node in &peers.nodes[from..] {
        for _ in 0..each {
            let peer = Arc::clone(&node.peer);
            calls.spawn(async move { peer.read(7).await });
        }
    }
    let answers = calls.join_all().await;
    answers.into_iter().filter(|answer| !answer.as_ref().is_ok_and(|version| *version == 1)).count() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_cold_key_is_loaded_once_by_all_nodes_together() {
    let _turn = alone().await;
    let (store, each) = (Store::new(Duration::from_millis(30), 1), size(2_500, 2_500));
    assert_eq!(store.commit(7), 1);
    let peers = Peers::start(4, &store, &Shape::default()).await.unwrap();
    let failed = callers(&peers, 0, each).await;
    println!("one cold key, 4 nodes x {each} callers: {} loads, {failed} failed", store.loads());
    assert_eq!((store.loads(), failed), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_of_a_killed_node_is_made_once_more() {
    let _turn = alone().await;
    let (store, each) = (Store::new(Duration::from_millis(5), 1), size(2_500, 2_500));
    assert_eq!(store.commit(7), 1);
    let peers = Peers::start(4, &store, &Shape::default()).await.unwrap();
    store.hold(true);
    let holder = Arc::clone(peers.peer(0));
    let held = tokio::spawn(async move { holder.read(7).await });
    until("the holder loads", SOON, async || store.loading() == 1).await;
    peers.peer(0).kill();
    peers.nodes[0].link.set(Mode::Refuse);
    let others = callers(&peers, 1, each);
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
