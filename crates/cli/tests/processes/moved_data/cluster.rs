//! From one node to a cluster.

use super::{assert_moves, checklist::Caller, export, filled::fill};
use crate::{
    cluster::site::{Site, with_relations},
    process::Node,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn everything_moves_to_a_cluster() {
    let (folder, from) = (tempfile::tempdir().unwrap(), Node::start());
    let to = Site::in_redis_of_tests().node_with(with_relations).await;
    let mut caller = Caller::open(&from.grpc).await;
    fill(&mut caller).await;
    let data = folder.path().join("data");
    export(&from.grpc, &data);
    let address = to.address();
    let plain = address.trim_start_matches("http://");
    assert_moves(&data, &mut caller, &mut Caller::open(plain).await, plain).await;
    to.stop().await;
}
