use std::{future::Future, sync::Arc, time::Duration};

use kith_lab::peers::{Peer, Peers, Readers, Shape, Store, Tally};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep},
};

/// After which no cached read is wrong any more, whatever happened to Redis or to the way there.
pub(crate) const BOUND: Duration = Duration::from_secs(3);
/// Of one read, while anything is wrong.
pub(crate) const READ_MAX: Duration = Duration::from_millis(250);
/// How long a fault lasts.
pub(crate) const FAULT: Duration = Duration::from_secs(5);
/// First of the keys that are read once each: nobody has them in memory.
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

fn is_full() -> bool {
    std::env::var_os("KITH_FULL").is_some()
}

pub(crate) async fn stage(nodes: u64) -> Peers {
    let store = Store::new(Duration::from_millis(5), 7);
    Peers::start(nodes, &store, &Shape::default()).await.unwrap()
}

/// Writes each of the keys once on the first node, and reads them on all: all memories hold them.
pub(crate) async fn warm(peers: &Peers, keys: u64) {
    for key in 0..keys {
        let (_, told) = peers.peer(0).write(key).await.unwrap();
        assert!(told);
    }
    // What was told last is heard by then.
    sleep(Duration::from_millis(200)).await;
    assert_eq!(peers.stale(0..keys).await.unwrap(), 0);
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

/// Each key once on that node, evenly over that time. Returns how many were not acknowledged, and how many
/// could be told at once.
pub(crate) async fn writes(peer: &Arc<Peer>, keys: std::ops::Range<u64>, within: Duration) -> Written {
    let count = u32::try_from(keys.end - keys.start).unwrap();
    let began = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for (at, key) in (0..count).zip(keys) {
        tokio::time::sleep_until(began + within * at / count).await;
        let peer = Arc::clone(peer);
        calls.spawn(async move {
            let version = peer.write(key).await.ok()?;
            let read = peer.read(key).await.ok()?;
            assert!(read >= version.0, "the writer reads {read} after {}", version.0);
            Some(version.1)
        });
    }
    let mut written = Written::default();
    for outcome in calls.join_all().await {
        written.refused += u64::from(outcome.is_none());
        written.told += u64::from(outcome == Some(true));
    }
    written
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) refused: u64,
    pub(crate) told: u64,
}

/// No read failed, none was too old or took too long.
pub(crate) fn assert_in_bounds(tally: &Tally) {
    assert!(tally.answered > 0 && tally.failed == 0, "{tally}");
    assert!(tally.stalest.told <= BOUND, "{tally}");
    assert!(tally.longest <= READ_MAX, "{tally}");
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, within: Duration, so: impl Fn() -> F) {
    let give_up = Instant::now() + within;
    while !so().await {
        assert!(Instant::now() < give_up, "not after {within:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
