//! The near cache of the client for Rust.

use std::path::Path;

use kith_lab::clients::NearTrial;

use crate::kith;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask nightly"]
async fn near_cache_keeps_its_bound() {
    let reader = Path::new(env!("CARGO_BIN_EXE_kith-lab")).to_owned();
    let report = NearTrial { kith: kith(), reader }.run().await.unwrap();
    assert!(report.holds(), "{report:?}");
}
