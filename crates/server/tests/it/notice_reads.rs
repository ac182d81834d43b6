//! The reads that notice totals need. They run over SQLite alone: a thousand publications take long
//! elsewhere, and the reads are the same.

use futures::future::join_all;
use kith_proto::{
    admin::v1::GetCacheStatsRequest,
    notice::v1::{CountNoticesRequest, Notice},
    r#type::v1::{Consistency, consistency::Level},
};

use crate::{
    node::TestNode,
    notice_calls::{in_seconds, mark, new_notice, node_with_audience, publish, totals},
};

/// Returns the requests to memory and the store: reads in the notice namespaces.
async fn reads(node: &TestNode) -> [(i64, i64); 3] {
    let stats = node.admin().get_cache_stats(GetCacheStatsRequest {}).await.unwrap().into_inner();
    ["audience", "notice_reader", "notice"].map(|name| {
        let of = stats.namespaces.iter().find(|of| of.namespace == name).unwrap();
        (of.hits + of.misses, of.store_reads)
    })
}

/// Guards against a fault in published schemes: each notice's bitmap is fetched whole and decoded.
#[tokio::test]
async fn thousand_notices_are_one_read() {
    let node = node_with_audience(|_| {}).await;
    let expire_time = Some(in_seconds(3_600));
    let new = |notice_id| Notice { notice_id, expire_time, ..new_notice(&[1]) };
    for ids in (1..=1_000).collect::<Vec<i64>>().chunks(50) {
        join_all(ids.iter().map(|id| publish(&node, new(*id)))).await;
    }
    let ids: Vec<i64> = (1..=1_000).step_by(2).collect();
    assert_eq!(mark(&node, 1, 42, &ids).await.totals.unwrap().unread, 500);
    let before = reads(&node).await;
    assert_eq!(totals(&node, 1, 42).await, (500, 500, 0));
    let after = reads(&node).await;
    let asked = |at: usize| after[at].0 - before[at].0;
    assert_eq!([0, 1, 2].map(asked), [1, 1, 0], "one audience, one reader, no notice");
    let consistency = Some(Consistency { level: Some(Level::Strong(true)) });
    let request = CountNoticesRequest { audience_id: 1, reader_id: 42, consistency };
    node.notices().count_notices(request).await.unwrap();
    let loaded = reads(&node).await;
    let loads = |at: usize| loaded[at].1 - after[at].1;
    assert_eq!([0, 1, 2].map(loads), [1, 1, 0], "of the store as well");
}
