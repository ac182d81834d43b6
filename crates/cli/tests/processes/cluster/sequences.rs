//! Sequence numbers are reserved through several nodes while Redis is emptied and killed: no number is given
//! out twice.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use kith_proto::sequence::v1::{
    GetMaxSeqsRequest, ReserveSeqsRequest, sequence_service_client::SequenceServiceClient,
};
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::{
    cluster::{
        redis::{Redis, ask},
        site::{Peer, Site, stop, until_all_follow},
    },
    polls::until,
};

/// How many callers each node has.
const CALLERS: i32 = 6;

const NAME: &str = "room:9";

async fn reserve(channel: &Channel, name: &str, count: i32, above: i64) -> Vec<i64> {
    let request = ReserveSeqsRequest { name: name.to_owned(), count, above };
    let answer = SequenceServiceClient::new(channel.clone()).reserve_seqs(request).await;
    let ranges = answer.unwrap().into_inner().ranges;
    let numbers: Vec<i64> = ranges.iter().flat_map(|range| range.first..=range.last).collect();
    assert_eq!(numbers.len(), usize::try_from(count).unwrap());
    assert!(numbers.is_sorted_by(|one, other| one < other) && numbers[0] > above, "{ranges:?}");
    numbers
}

/// The callers on all nodes, until they are stopped.
struct RunningCallers {
    callers: JoinSet<Vec<i64>>,
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl RunningCallers {
    fn begin(peers: &[&Peer]) -> Self {
        let mut running = Self { callers: JoinSet::new(), stop: Arc::default(), calls: Arc::default() };
        for peer in peers {
            for caller in 0..CALLERS {
                let (stop, calls) = (Arc::clone(&running.stop), Arc::clone(&running.calls));
                running.callers.spawn(call(peer.channel(), caller, stop, calls));
            }
        }
        running
    }

    /// Waits until this many more calls were answered.
    async fn until_answered(&self, calls: usize) {
        let enough = self.calls.load(Ordering::Acquire) + calls;
        until(Duration::from_secs(60), async || self.calls.load(Ordering::Acquire) >= enough).await;
    }

    /// Stops all callers. Returns all their numbers.
    async fn end(self) -> Vec<i64> {
        self.stop.store(true, Ordering::Release);
        self.callers.join_all().await.concat()
    }
}

/// Reserves numbers. A caller that knows its last number gets higher numbers.
async fn call(channel: Channel, caller: i32, stop: Arc<AtomicBool>, calls: Arc<AtomicUsize>) -> Vec<i64> {
    let mut numbers: Vec<i64> = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let above = if caller == 0 { numbers.last().copied().unwrap_or(0) } else { 0 };
        numbers.extend(reserve(&channel, NAME, caller * 3 + 1, above).await);
        calls.fetch_add(1, Ordering::AcqRel);
    }
    numbers
}

async fn assert_each_once(peer: &Peer, numbers: &[i64]) {
    let distinct: BTreeSet<i64> = numbers.iter().copied().collect();
    assert_eq!(distinct.len(), numbers.len(), "some numbers were given out twice");
    let request = GetMaxSeqsRequest { names: vec![NAME.to_owned()] };
    let max = SequenceServiceClient::new(peer.channel()).get_max_seqs(request).await.unwrap().into_inner();
    assert!(max.max_seqs[0].max_seq >= *distinct.last().unwrap());
}

/// Returns whether the numbers rise across all nodes.
async fn rise(a: &Peer, b: &Peer, name: &str) -> bool {
    let mut last = 0;
    for turn in 0..400 {
        let peer = if turn % 3 == 0 { a } else { b };
        let numbers = reserve(&peer.channel(), name, turn % 5 + 1, 0).await;
        if numbers[0] <= last {
            return false;
        }
        last = numbers[numbers.len() - 1];
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn later_call_gets_higher_numbers_on_every_node() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let mut rises = false;
    // A node that is not scheduled for 1.5 s takes numbers from the store.
    for name in ["one", "two", "three"] {
        rises = rises || rise(&a, &b, name).await;
    }
    assert!(rises);
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn no_number_is_repeated_as_redis_is_lost() {
    let mut redis = Redis::start(&[]).await;
    let site = Site::new(Some(redis.url()));
    let (a, b) = site.pair().await;
    let running = RunningCallers::begin(&[&a, &b]);
    for _ in 0..3 {
        running.until_answered(100).await;
        assert_eq!(ask(&redis.url(), "FLUSHALL").await, "+OK");
        running.until_answered(100).await;
        redis.kill();
        running.until_answered(200).await;
        redis.run().await;
    }
    until_all_follow([&a, &b]).await;
    running.until_answered(200).await;
    assert_each_once(&a, &running.end().await).await;
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn node_without_redis_assigns_from_its_memory() {
    let site = Site::new(None);
    let alone = site.node().await;
    let before = reserve(&alone.channel(), NAME, 40, 0).await;
    assert_eq!(before, (1..=40).collect::<Vec<_>>());
    assert_eq!(reserve(&alone.channel(), NAME, 40, 0).await, (41..=80).collect::<Vec<_>>());
    alone.stop().await;
    let alone = site.node().await;
    assert!(reserve(&alone.channel(), NAME, 1, 0).await[0] > 80);
    alone.stop().await;
}
