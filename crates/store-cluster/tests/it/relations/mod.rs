//! Relations in CQL, beyond the contract: clocks that differ, nodes that die, buckets, feeds.

mod applications;
mod buckets;
mod clocks;
mod crashes;
mod feed;
mod forgotten_requests;
mod imports;
mod late_writes;
mod log_ends;
mod logs;
mod members;
mod migration;

use std::time::Duration;

use kith_store::{
    Edge, Follow, FollowCounts, FollowList, Stored, Stores, Timestamp, UserId, Write,
    conformance::relation_sample::{blocking, edge},
};
use kith_store_cluster::{ClusterHandle, CqlOptions, MongoOptions};
use tokio::time::Instant;

use crate::server::{self, DatabaseGuard};

/// Nothing takes so long.
const BOUND: Duration = Duration::from_secs(30);
const KEPT: Duration = Duration::from_secs(3600);

/// Fresh stores, and as many nodes over them as a test wants.
struct Stage {
    mongo: MongoOptions,
    cql: CqlOptions,
    stores: Stores,
    _cleaning: DatabaseGuard,
}

impl Stage {
    async fn open() -> Self {
        Self::open_with(server::cql_options()).await
    }

    async fn open_with(cql: CqlOptions) -> Self {
        let mongo = server::options();
        let (stores, cleaning) = server::open_relations(mongo.clone(), cql.clone()).await;
        Self { mongo, cql, stores, _cleaning: cleaning }
    }

    /// Starts another node, with other options.
    async fn node(&self, change: impl FnOnce(&mut CqlOptions)) -> (Stores, ClusterHandle) {
        let mut cql = self.cql.clone();
        change(&mut cql);
        let node = server::node(&self.mongo, &cql).await;
        let stores = node.stores();
        let give_up = Instant::now() + BOUND;
        while stores.follows.follows(&[edge(1, 2)]).await.is_err() {
            assert!(Instant::now() < give_up, "the node does not connect");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        (stores, node)
    }

    /// Runs a statement without the stores; `%k` is replaced by the keyspace.
    async fn run(&self, statement: &str) {
        let statement = statement.replace("%k", &self.cql.keyspace);
        server::session().await.query_unpaged(statement, ()).await.unwrap();
    }
}

fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

fn now() -> Write {
    Write::at(Timestamp::now())
}

async fn state(stores: &Stores, edge: Edge) -> Stored<Follow> {
    let found = stores.follows.follows(&[edge]).await.unwrap();
    found.into_iter().next().map_or(Stored::Never, |(_, stored)| stored)
}

async fn list(stores: &Stores, owner: i64, list: FollowList) -> Vec<Follow> {
    stores.follows.follow_list(user(owner), list, None, 10_000).await.unwrap()
}

/// Row and both lists agree about the edge; returns whether it is active.
async fn agrees(stores: &Stores, edge: Edge) -> bool {
    let follow = state(stores, edge).await.live();
    let following = list(stores, edge.from.get(), FollowList::Following).await;
    let fans = list(stores, edge.to.get(), FollowList::Fans).await;
    let shown = |list: Vec<Follow>| list.into_iter().find(|follow| follow.edge == edge);
    assert_eq!((shown(following), shown(fans)), (follow.clone(), follow.clone()), "{edge}");
    follow.is_some()
}

async fn counts_become(stores: &Stores, of: i64, expected: (u64, u64)) {
    let expected = FollowCounts { following: expected.0, fans: expected.1 };
    let give_up = Instant::now() + BOUND;
    loop {
        let counts = stores.follows.follow_counts(&[user(of)]).await.unwrap()[0];
        if counts == expected {
            return;
        }
        assert!(Instant::now() < give_up, "{counts:?} and not {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
