use kith_store::StoreError;
use kith_store_cluster::{CqlOptions, CqlUnfit, connect};

use super::{BOUND, KEPT, Stage, edge, now};
use crate::server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn relations_are_pending_until_both_stores_have_their_part() {
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
async fn a_cassandra_that_is_away_is_unavailable_and_says_so() {
    let stage = Stage::open().await;
    let (node, away) = {
        let cql = CqlOptions { contact_points: vec!["127.0.0.1:1".to_owned()], ..stage.cql.clone() };
        let node = connect(stage.mongo.clone()).await.unwrap().with_relations(cql).unwrap();
        (node.stores(), node.cql_probe().unwrap())
    };
    let refused = node.follows.follow(edge(1, 2), KEPT, now()).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    assert_eq!(away.unfit(BOUND).await, Some(CqlUnfit::Away));
    let (_stores, handle) = stage.node(|_| ()).await;
    assert_eq!(handle.cql_probe().unwrap().unfit(BOUND).await, None);
}
