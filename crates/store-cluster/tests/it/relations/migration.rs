//! Nodes whose Cassandra is absent or lost, or not migrated.

use std::time::Duration;

use kith_store::{Outcome, StoreError};
use kith_store_cluster::{CqlOptions, CqlUnfit, connect};

use super::{BOUND, KEPT, Stage, edge, now};
use crate::server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn relations_wait_for_both_stores() {
    let (mongo, cql) = (server::options(), server::cql_options());
    let (without, _cleaning) = server::open_with(mongo.clone()).await;
    let pending = |all: Vec<kith_store::Migration>| -> Vec<u32> {
        all.iter().filter(|one| one.applied.is_none()).map(|one| one.number).collect()
    };
    assert_eq!(pending(without.migrations.status().await.unwrap()), [0_u32; 0]);
    let (with, _cleaning) = {
        let stores = server::node(&mongo, &cql).await.stores();
        assert_eq!(pending(stores.migrations.status().await.unwrap()), [4, 5, 6, 7, 8, 10]);
        server::open_relations(mongo, cql).await
    };
    assert_eq!(pending(with.migrations.status().await.unwrap()), [0_u32; 0]);
    with.follows.follow(edge(1, 2), KEPT, now()).await.unwrap();
}

#[tokio::test]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn absent_cassandra_is_unavailable() {
    let stage = Stage::open().await;
    let (node, probe) = {
        let cql = CqlOptions { contact_points: vec!["127.0.0.1:1".to_owned()], ..stage.cql.clone() };
        let node = connect(stage.mongo.clone()).await.unwrap().with_relations(cql).unwrap();
        (node.stores(), node.cql_probe().unwrap())
    };
    let refused = node.follows.follow(edge(1, 2), KEPT, now()).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    assert_eq!(probe.unfit(BOUND).await, Some(CqlUnfit::Unreachable));
    let (_stores, handle) = stage.node(|_| ()).await;
    assert_eq!(handle.cql_probe().unwrap().unfit(BOUND).await, None);
}

#[tokio::test]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn lost_cassandra_is_not_waited_for() {
    let stage = Stage::open().await;
    let (node, handle) = stage.node(|_| ()).await;
    let probe = handle.cql_probe().unwrap();
    // A timer fires within a millisecond, and a few answers come sooner.
    let (mut unanswered, mut tries) = (0, 0);
    while unanswered < 2 {
        tries += 1;
        assert!(tries < 1_000, "a server answers in no time");
        let is_unreachable = probe.unfit(Duration::ZERO).await == Some(CqlUnfit::Unreachable);
        unanswered = if is_unreachable { unanswered + 1 } else { 0 };
    }
    let error = node.follows.follow(edge(1, 2), KEPT, now()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error:?}");
    assert_eq!(probe.unfit(BOUND).await, None);
    node.follows.follow(edge(1, 2), KEPT, now()).await.unwrap();
}
