//! The contract of the stores, on a real MongoDB.

mod server;

use kith_store::Stores;

async fn open() -> (Stores, server::Cleaning) {
    server::open_with(server::options()).await
}

kith_store::conformance!(open, #[ignore = "needs MongoDB: run cargo xtask test"]);
