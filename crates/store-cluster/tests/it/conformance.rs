//! The contract of the stores, on a real MongoDB and a real Cassandra.

use crate::server;
use kith_store::Stores;

async fn open() -> (Stores, server::DatabaseGuard) {
    server::open_with(server::options()).await
}

async fn open_relations() -> (Stores, server::DatabaseGuard) {
    server::open_shared().await
}

kith_store::records_conformance!(open, #[ignore = "needs MongoDB: run cargo xtask test"]);
kith_store::shared_conformance!(open, #[ignore = "needs MongoDB: run cargo xtask test"]);
kith_store::relations_conformance!(open_relations, #[ignore = "needs Cassandra: run cargo xtask test"]);
