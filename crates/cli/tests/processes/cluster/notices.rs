//! Notices through several nodes while Redis is emptied: no mark is lost, and counts of readers become exact.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kith_proto::{
    notice::v1::{notice_service_client::NoticeServiceClient, *},
    r#type::v1::Consistency,
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::cluster::{
    redis::{Redis, ask},
    site::{Peer, Site, at_least, strong, until},
};

const READERS: i64 = 240;
const NOTICES: i64 = 12;
/// Callers, each with readers of its own.
const CALLERS: i64 = 12;
/// Marks of each reader.
const MARKS: usize = 6;

fn client(channel: &Channel) -> NoticeServiceClient<Channel> {
    NoticeServiceClient::new(channel.clone())
}

async fn audience(peer: &Peer) {
    let audience = Audience { audience_id: 1, name: "Customers".to_owned(), ..Audience::default() };
    let request = RegisterAudienceRequest { audience: Some(audience), ..RegisterAudienceRequest::default() };
    client(&peer.channel()).register_audience(request).await.unwrap();
}

async fn publish(peer: &Peer, notice_id: i64) -> String {
    let notice = Notice { notice_id, title: "News".to_owned(), audience_ids: vec![1], ..Notice::default() };
    let request = PublishNoticeRequest { notice: Some(notice), ..PublishNoticeRequest::default() };
    client(&peer.channel()).publish_notice(request).await.unwrap().into_inner().consistency_token
}

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

async fn counts(channel: &Channel) -> (Vec<i64>, bool) {
    let request = CountReadersRequest { audience_id: 1, notice_ids: (1..=NOTICES).collect() };
    let counted = client(channel).count_readers(request).await.unwrap().into_inner();
    (counted.counts.iter().map(|count| count.read).collect(), counted.incomplete)
}

/// Marks and unmarks at random through all nodes, and what each reader has read then.
async fn call(channels: Arc<[Channel]>, caller: i64) -> Vec<(i64, BTreeSet<i64>)> {
    let mut rng = StdRng::seed_from_u64(caller.unsigned_abs());
    let of_caller = (1..=READERS).filter(|reader| reader % CALLERS == caller);
    let mut model: Vec<(i64, BTreeSet<i64>)> = of_caller.map(|reader| (reader, BTreeSet::new())).collect();
    for _ in 0..MARKS {
        for (reader_id, read) in &mut model {
            let mut node = client(channels.choose(&mut rng).unwrap());
            let notice_ids: Vec<i64> = (1..=NOTICES).filter(|_| rng.random_bool(0.3)).collect();
            let (audience_id, reader_id) = (1, *reader_id);
            let left = if rng.random_bool(0.7) {
                read.extend(&notice_ids);
                let request =
                    MarkReadRequest { audience_id, reader_id, notice_ids, ..MarkReadRequest::default() };
                node.mark_read(request).await.unwrap().into_inner().totals
            } else {
                read.retain(|notice| !notice_ids.contains(notice));
                let request = MarkUnreadRequest { audience_id, reader_id, notice_ids };
                node.mark_unread(request).await.unwrap().into_inner().totals
            };
            assert_eq!(usize::try_from(left.unwrap().read).unwrap(), read.len(), "reader {reader_id}");
        }
    }
    model
}

/// Faults of published schemes: marks that Redis alone has, and a rebuild that loses those made meanwhile.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn emptied_redis_loses_no_mark_and_counts_become_exact() {
    let redis = Redis::start(&[]).await;
    let site = Site::new(Some(redis.url()));
    let (a, b) = site.pair().await;
    let c = site.node().await;
    c.until_following().await;
    audience(&a).await;
    register(&b, 1..=READERS / 2).await;
    for notice in 1..=NOTICES {
        publish([&a, &b, &c][usize::try_from(notice % 3).unwrap()], notice).await;
    }
    let channels: Arc<[Channel]> = [&a, &b, &c].map(Peer::channel).into();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        callers.spawn(call(Arc::clone(&channels), caller));
    }
    let mut model = Vec::new();
    let mut emptied = 0;
    while let Some(ended) = callers.join_next().await {
        model.extend(ended.unwrap());
        // Bitmaps are filled while marks are made.
        counts(&channels[emptied % 3]).await;
        if emptied < 3 {
            assert_eq!(ask(&redis.url(), "FLUSHALL").await, "+OK");
            emptied += 1;
        }
    }
    for (reader, read) in &model {
        let expected = i32::try_from(read.len()).unwrap();
        let all = i32::try_from(NOTICES).unwrap();
        let found = totals(&channels[0], *reader, strong()).await;
        assert_eq!(found, (expected, all - expected), "reader {reader}");
    }
    for peer in [&a, &b, &c] {
        peer.until_following().await;
    }
    let of_notice = |notice| model.iter().filter(|(_, read)| read.contains(&notice)).count();
    let expected: Vec<i64> = (1..=NOTICES).map(|notice| i64::try_from(of_notice(notice)).unwrap()).collect();
    for channel in &*channels {
        until(Duration::from_secs(40), async || counts(channel).await == (expected.clone(), false)).await;
    }
    for peer in [a, b, c] {
        peer.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn other_node_sees_notices_and_marks() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    audience(&a).await;
    register(&a, 7..=7).await;
    assert_eq!(totals(&b.channel(), 7, None).await, (0, 0));
    let token = publish(&a, 1).await;
    assert_eq!(totals(&b.channel(), 7, at_least(&token)).await, (0, 1));
    // One that the caller has seen on another node is marked, whatever the copy of this one says.
    publish(&a, 2).await;
    let request =
        MarkReadRequest { audience_id: 1, reader_id: 7, notice_ids: vec![2], ..MarkReadRequest::default() };
    let marked = client(&b.channel()).mark_read(request).await.unwrap().into_inner();
    assert_eq!((marked.not_found, marked.totals.unwrap().read), (Vec::<i64>::new(), 1));
    assert_eq!(totals(&a.channel(), 7, at_least(&marked.consistency_token)).await, (1, 1));
    until(Duration::from_secs(10), async || totals(&a.channel(), 7, None).await == (1, 1)).await;
    a.stop().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn counts_come_from_bitmaps_once_they_are_filled() {
    let site = Site::in_redis_of_tests();
    let (a, b) = site.pair().await;
    audience(&a).await;
    register(&a, 1..=50).await;
    publish(&a, 1).await;
    let mark = async |peer: &Peer, reader_id| {
        let request =
            MarkReadRequest { audience_id: 1, reader_id, notice_ids: vec![1], ..MarkReadRequest::default() };
        client(&peer.channel()).mark_read(request).await.unwrap();
    };
    let count = async |peer: &Peer| {
        let request = CountReadersRequest { audience_id: 1, notice_ids: vec![1] };
        client(&peer.channel()).count_readers(request).await.unwrap().into_inner().counts[0].read
    };
    mark(&a, 1).await;
    assert_eq!(count(&a).await, 1);
    // From now on each mark is counted at once, on both nodes.
    for reader in 2..=20 {
        mark(if reader % 2 == 0 { &a } else { &b }, reader).await;
        assert_eq!(count(if reader % 3 == 0 { &a } else { &b }).await, reader);
    }
    a.stop().await;
    b.stop().await;
}
