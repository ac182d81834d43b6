//! Several nodes share notices.

use std::time::Duration;

use kith_proto::{
    notice::v1::{CountNoticesRequest, Reader, RegisterReadersRequest},
    r#type::v1::Consistency,
};
use tonic::transport::Channel;

use crate::{
    cluster::{
        notice_calls::{audience, client, mark, publish},
        site::{Peer, Site, at_least, stop},
    },
    polls::until,
};

async fn register(peer: &Peer, readers: std::ops::RangeInclusive<i64>) {
    let since = Some(prost_types::Timestamp::default());
    let readers = readers.map(|reader_id| Reader { reader_id, since }).collect();
    let request = RegisterReadersRequest { audience_id: 1, readers };
    client(&peer.channel()).register_readers(request).await.unwrap();
}

async fn totals(channel: &Channel, reader_id: i64, consistency: Option<Consistency>) -> (i32, i32) {
    let request = CountNoticesRequest { audience_id: 1, reader_id, consistency };
    let totals = client(channel).count_notices(request).await.unwrap().into_inner().totals.unwrap();
    (totals.read, totals.unread)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn other_node_sees_notices_and_marks() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    audience(&a.channel(), false).await;
    register(&a, 7..=7).await;
    assert_eq!(totals(&b.channel(), 7, None).await, (0, 0));
    let token = publish(&a.channel(), 1).await;
    assert_eq!(totals(&b.channel(), 7, at_least(&token)).await, (0, 1));
    // A notice that the caller has seen on another node is marked, even if this node's copy does not have it.
    publish(&a.channel(), 2).await;
    let marked = mark(&b.channel(), 7, 2).await;
    assert_eq!((marked.not_found, marked.totals.unwrap().read), (Vec::<i64>::new(), 1));
    assert_eq!(totals(&a.channel(), 7, at_least(&marked.consistency_token)).await, (1, 1));
    until(Duration::from_secs(10), async || totals(&a.channel(), 7, None).await == (1, 1)).await;
    stop([a, b]).await;
}
