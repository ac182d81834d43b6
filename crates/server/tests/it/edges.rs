//! Edge upkeep over gRPC, on nodes whose data were damaged by hand.

use std::time::Duration;

use crate::corrupt_lists::{self, FOLLOWS, MISCOUNTED, SINCE, WRONG};

use crate::node::{TestNode, assert_forbidden, assert_invalid, until_within};
use crate::relation_calls::counts;
use kith_proto::{admin::v1::*, relation::v1::*};
use tempfile::TempDir;
use tonic::{Streaming, transport::Endpoint};

/// Starts a node over damaged data.
async fn damaged_node() -> (TestNode, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    corrupt_lists::prepare(&data_dir).await;
    let node = TestNode::start_with(|config| config.data_dir = data_dir);
    (node.await, folder)
}

async fn all<M>(mut steps: Streaming<M>) -> Vec<M> {
    let mut all = Vec::new();
    while let Some(step) = steps.message().await.unwrap() {
        all.push(step);
    }
    all
}

/// Returns the last step's findings, with the examples from all steps.
fn last(steps: &[EdgeComparison]) -> EdgeComparison {
    let mut done = 0.0;
    let mut examples = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        assert!(step.done >= done && step.done <= 1.0 && step.ended == (at + 1 == steps.len()), "{steps:?}");
        done = step.done;
        examples.extend(step.examples.clone());
    }
    EdgeComparison { examples, ..steps.last().unwrap().clone() }
}

async fn verify(node: &TestNode, examples: i32) -> EdgeComparison {
    let steps = node.admin().verify_edges(VerifyEdgesRequest { examples }).await.unwrap().into_inner();
    last(&all(steps).await.into_iter().map(|step| step.comparison.unwrap()).collect::<Vec<_>>())
}

async fn repair(node: &TestNode) -> EdgeComparison {
    let steps = node.admin().repair_edges(RepairEdgesRequest::default()).await.unwrap().into_inner();
    last(&all(steps).await.into_iter().map(|step| step.comparison.unwrap()).collect::<Vec<_>>())
}

/// Returns since when the only fan follows, in milliseconds, according to the cached list.
async fn fan_since(node: &TestNode) -> i64 {
    let request = ListFansRequest { user_id: WRONG.1, ..Default::default() };
    let page = node.relations().list_fans(request).await.unwrap().into_inner();
    let time = page.follows[0].follow_time.unwrap();
    time.seconds * 1000 + i64::from(time.nanos / 1_000_000)
}

#[tokio::test]
async fn comparison_reports_and_changes_nothing() {
    let (node, _data) = damaged_node().await;
    for _ in 0..2 {
        let found = verify(&node, 0).await;
        assert_eq!((found.checked, found.differences, found.repaired), (3 * FOLLOWS, 2, 0));
        assert!(found.ended && found.done > 0.999);
        let kinds: Vec<_> = found.examples.iter().map(EdgeDifference::kind).collect();
        assert_eq!(kinds, [EdgeDifferenceKind::NotAmongFans, EdgeDifferenceKind::StrayAmongFans]);
        for example in found.examples {
            assert_eq!((example.user_id, example.target_id, example.repaired), (WRONG.0, WRONG.1, false));
        }
    }
}

#[tokio::test]
async fn repair_corrects_list_and_caches() {
    let (node, _data) = damaged_node().await;
    assert_eq!(fan_since(&node).await, SINCE ^ 1);
    let mended = repair(&node).await;
    assert!(mended.differences > 0 && mended.differences == mended.repaired, "{mended:?}");
    assert!(mended.examples.iter().all(|example| example.repaired));
    assert_eq!(fan_since(&node).await, SINCE);
    assert_eq!(verify(&node, 0).await.differences, 0);
    assert_eq!(repair(&node).await.differences, 0);
}

#[tokio::test]
async fn recount_corrects_count_and_caches() {
    let (node, _data) = damaged_node().await;
    assert_eq!(counts(&node, MISCOUNTED).await, (12, 14));
    for corrected in [1, 0] {
        let steps = node.admin().rebuild_counts(RebuildCountsRequest {}).await.unwrap().into_inner();
        let steps = all(steps).await;
        let last = steps.last().unwrap();
        assert!(last.ended && last.done > 0.999 && last.counted > 0, "{steps:?}");
        assert_eq!(last.corrected, corrected);
        assert_eq!(counts(&node, MISCOUNTED).await, (12, 13));
    }
}

#[tokio::test]
async fn examples_are_limited_as_asked() {
    let (node, _data) = damaged_node().await;
    let found = verify(&node, 1).await;
    assert_eq!((found.differences, found.examples.len()), (2, 1));
    for examples in [-1, 1001] {
        assert_invalid(node.admin().verify_edges(VerifyEdgesRequest { examples }).await, "examples");
    }
}

/// Makes a client that takes a byte at a time, so that an unread stream stalls.
async fn slow_client(node: &TestNode) -> admin_service_client::AdminServiceClient<tonic::transport::Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", node.address)).unwrap();
    let channel = endpoint.initial_stream_window_size(1).connect().await.unwrap();
    admin_service_client::AdminServiceClient::new(channel)
}

#[tokio::test]
async fn one_run_of_a_kind_ends_with_its_caller() {
    let (node, _data) = damaged_node().await;
    let unread = slow_client(&node).await.verify_edges(VerifyEdgesRequest::default()).await.unwrap();
    let second = async || node.admin().verify_edges(VerifyEdgesRequest::default()).await.map(drop);
    let refused = assert_forbidden(second().await);
    assert!(refused.message().contains("is running already"), "{refused:?}");
    // A repair is another kind of job, so it may run.
    assert!(repair(&node).await.ended);
    drop(unread);
    until_within(Duration::from_secs(20), async || second().await.is_ok()).await;
}
