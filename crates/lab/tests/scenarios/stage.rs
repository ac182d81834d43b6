use std::{future::Future, ops::Range, pin::Pin, sync::Arc, time::Duration};

use futures::future::join_all;
use kith_lab::peers::{Peer, Peers, Readers, Shape, Store, Tally};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

/// After which no cached read is wrong any more, whatever happened to Redis or to the way there.
pub(crate) const BOUND: Duration = Duration::from_secs(3);
/// Of one read, while anything is wrong.
pub(crate) const READ_MAX: Duration = Duration::from_millis(250);
/// How long a fault lasts.
pub(crate) const FAULT: Duration = Duration::from_secs(5);
/// How long what comes before a scenario may take.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// First of the keys that are read once each: no memory has them.
const COLD: u64 = 1 << 30;

/// Scenarios that mostly wait, and may run beside each other.
const BESIDE: u32 = 3;
static TURNS: Semaphore = Semaphore::const_new(BESIDE as usize);

/// A turn beside other scenarios; alone when all is large.
pub(crate) async fn turn() -> SemaphorePermit<'static> {
    let turns = if is_full() { BESIDE } else { 1 };
    TURNS.acquire_many(turns).await.unwrap()
}

/// A turn for a scenario that keeps the machine busy.
pub(crate) async fn alone() -> SemaphorePermit<'static> {
    TURNS.acquire_many(BESIDE).await.unwrap()
}

/// The first, or the second under `KITH_FULL`.
pub(crate) fn size(small: u64, full: u64) -> u64 {
    if is_full() { full } else { small }
}

pub(crate) fn is_full() -> bool {
    std::env::var_os("KITH_FULL").is_some()
}

pub(crate) async fn stage(nodes: u64) -> Peers {
    let store = Store::new(Duration::from_millis(5), 7);
    Peers::start(nodes, &store, &Shape::default()).await.unwrap()
}

/// Writes each of the keys once on the first node, and reads them on all: all memories hold them.
pub(crate) async fn warm(peers: &Peers, keys: u64) {
    as_fast_as_possible(peers.peer(0), keys).await;
    told(peers.peer(0)).await;
    // The last publication is received by then.
    sleep(Duration::from_millis(200)).await;
    until("all memories hold the keys", READY_WITHIN, async || {
        assert_eq!(peers.stale(0..keys).await.unwrap(), 0);
        peers.nodes.iter().all(|node| in_memory(&node.peer, keys) == keys)
    })
    .await;
}

/// How many of the keys memory answers. It is filled a moment after many were read at once.
pub(crate) fn in_memory(peer: &Peer, keys: u64) -> u64 {
    let cache = peer.records().cache();
    (0..keys).map(|key| u64::from(cache.peek(&key).is_some())).sum()
}

/// Waits until everything that this node has written is published: what took too long on a busy machine is published a
/// little later.
pub(crate) async fn told(peer: &Peer) {
    until("nothing waits to be told", READY_WITHIN, async || peer.waiting() == 0).await;
}

/// Writers at once, when as much is written as Redis takes.
const WRITERS: u64 = 16;

/// Writes each of the keys once, each writer its own, one after the other. Returns how many could be published at once.
pub(crate) async fn as_fast_as_possible(peer: &Arc<Peer>, keys: u64) -> u64 {
    let mut writers = JoinSet::new();
    for first in 0..WRITERS {
        let peer = Arc::clone(peer);
        writers.spawn(async move {
            let mut told = 0;
            for key in (first..keys).step_by(usize::try_from(WRITERS).unwrap()) {
                told += u64::from(peer.write(key).await.unwrap().1);
            }
            told
        });
    }
    writers.join_all().await.into_iter().sum()
}

/// Two readers of warm keys and one of cold ones on each node.
pub(crate) fn readers(peers: &Peers, keys: u64) -> Readers {
    let (mut readers, pause) = (Readers::new(), Duration::from_millis(2));
    for (at, node) in peers.nodes.iter().enumerate() {
        readers.add(&node.peer, &peers.store, 0..keys, pause);
        readers.add(&node.peer, &peers.store, 0..keys, pause);
        let first = COLD * (u64::try_from(at).unwrap() + 1);
        readers.add(&node.peer, &peers.store, first..first + COLD, 5 * pause);
    }
    readers
}

/// Each key once on that node, evenly over that time, and each read there at once. Returns how many were not
/// acknowledged.
pub(crate) async fn writes(peer: &Arc<Peer>, keys: Range<u64>, within: Duration) -> u64 {
    let count = u32::try_from(keys.end - keys.start).unwrap();
    let (began, mut calls) = (Instant::now(), JoinSet::new());
    for (at, key) in (0..count).zip(keys) {
        sleep_until(began + within * at / count).await;
        let peer = Arc::clone(peer);
        calls.spawn(async move {
            let Ok((version, _)) = peer.write(key).await else { return 1 };
            let read = peer.read(key).await.unwrap();
            assert!(read >= version, "the writer reads {read} after {version}");
            0
        });
    }
    calls.join_all().await.into_iter().sum()
}

/// No read failed, and none was too old.
pub(crate) fn assert_fresh(tally: &Tally) {
    assert!(tally.answered > 0 && tally.failed == 0, "{tally}");
    assert!(tally.stalest.told <= BOUND, "{tally}");
}

/// Nor did one take too long, but for what the machine itself was late.
pub(crate) fn assert_in_bounds(tally: &Tally) {
    assert_fresh(tally);
    assert!(tally.longest <= READ_MAX + tally.pause, "{tally}");
}

/// Scenarios that mostly wait, each with servers of its own: beside each other, or one after the other when all
/// is large.
pub(crate) async fn beside<const N: usize>(scenarios: [Pin<Box<dyn Future<Output = ()> + '_>>; N]) {
    if is_full() {
        for scenario in scenarios {
            scenario.await;
        }
    } else {
        join_all(scenarios).await;
    }
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, within: Duration, so: impl Fn() -> F) {
    let give_up = Instant::now() + within;
    while !so().await {
        assert!(Instant::now() < give_up, "not after {within:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
