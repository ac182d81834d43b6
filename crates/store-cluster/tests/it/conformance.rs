//! The store contract, on a real MongoDB and a real Cassandra.

use crate::server;
use kith_store::Stores;

async fn open() -> (Stores, server::LentGuard) {
    server::open_lent().await
}

async fn open_relations() -> (Stores, server::LentGuard) {
    server::open_lent_relations().await
}

kith_store::records_conformance!(open, #[ignore = "needs MongoDB: run cargo xtask test"]);
kith_store::shared_conformance!(open, #[ignore = "needs MongoDB: run cargo xtask test"]);
kith_store::relations_conformance!(open_relations, #[ignore = "needs Cassandra: run cargo xtask test"]);
