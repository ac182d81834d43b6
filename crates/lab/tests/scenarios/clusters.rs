use std::{sync::Arc, time::Duration};

use kith_lab::{
    peers::{Peer, Readers, Shape, Store, shared_by},
    redis_server::{RedisCluster, RedisServer},
};
use tokio::time::sleep;

use crate::stage::{assert_fresh, size, told, turn, writes};

const SOON: Duration = Duration::from_secs(20);
/// The last publication is received by then.
const SETTLED: Duration = Duration::from_millis(500);

async fn nodes(count: u64, url: &str, prefix: &str, store: &Store) -> Vec<Arc<Peer>> {
    let mut nodes = Vec::new();
    for id in 1..=count {
        let shared = shared_by(url, prefix).await.unwrap();
        nodes.push(Arc::new(Peer::start(id, &shared, store, &Shape::default())));
    }
    for node in &nodes {
        assert!(node.until_trusted(SOON).await, "a node does not begin");
    }
    nodes
}

async fn versions(node: &Peer, keys: u64) -> Vec<u64> {
    let mut versions = Vec::new();
    for key in 0..keys {
        versions.push(node.read(key).await.unwrap());
    }
    versions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_over_a_redis_cluster_of_three_see_each_others_writes() {
    let _turn = turn().await;
    let (cluster, store) = (RedisCluster::start().await.unwrap(), Store::new(Duration::from_millis(5), 7));
    let (nodes, keys) = (nodes(3, &cluster.uri(), "kith-lab", &store).await, size(100, 1_000));
    let mut readers = Readers::new();
    nodes.iter().for_each(|node| readers.add(node, &store, 0..keys, Duration::from_millis(2)));
    for node in &nodes {
        let refused = writes(node, 0..keys, Duration::from_millis(500)).await;
        assert_eq!(refused, 0);
        told(node).await;
    }
    sleep(SETTLED).await;
    let tally = readers.end().await;
    println!("a Redis Cluster of three, {} writes: {tally}", keys * 3);
    for node in &nodes {
        assert!(versions(node, keys).await.iter().all(|version| *version == 3));
    }
    assert_fresh(&tally);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clusters_under_two_prefixes_on_one_redis_do_not_meet() {
    let _turn = turn().await;
    let (redis, keys) = (RedisServer::start(&[]).await.unwrap(), 50);
    let stores = [1, 2].map(|seed| Store::new(Duration::ZERO, seed));
    let first = nodes(2, &redis.uri(), "kith-lab.one", &stores[0]).await;
    let second = nodes(2, &redis.uri(), "kith-lab.two", &stores[1]).await;
    writes(&second[0], 0..keys, Duration::ZERO).await;
    sleep(SETTLED).await;
    assert_eq!(versions(&second[1], keys).await, vec![1; 50]);
    let before = (second[1].node().applied(), second[1].node().epoch(), stores[1].loads());
    for _ in 0..3 {
        writes(&first[0], 0..keys, Duration::ZERO).await;
    }
    sleep(SETTLED).await;
    assert_eq!(versions(&first[1], keys).await, vec![3; 50]);
    assert_eq!(versions(&second[1], keys).await, vec![1; 50]);
    let after = (second[1].node().applied(), second[1].node().epoch(), stores[1].loads());
    println!(
        "two prefixes on one Redis: applied, epoch and loads of the other were {before:?}, are {after:?}"
    );
    assert_eq!(before, after);
}
