//! All shared servers behave alike: one test list runs over the server within the process, over Redis and
//! over a Redis Cluster.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kith_cache::{
    Version,
    remote::{
        Acquired, Cell, CellKind, CellWrite, Confirmation, FillResult, Frame, FrameOrder, Frames, Header,
        Heartbeat, LogEntry, LogPosition, News, Retention, SharedBackend, redis::RedisOptions,
    },
};
use tokio::time::timeout;

use crate::{
    server::Cluster,
    stage::{PATIENCE, SHORT, accepted, address, eventually, fake, options},
};

/// Where a new server comes from.
enum Source {
    Fake,
    Redis(String),
}

impl Source {
    async fn fresh(&self, retention: Retention) -> Arc<dyn SharedBackend> {
        match self {
            Self::Fake => fake(retention),
            Self::Redis(url) => accepted(RedisOptions { retention, ..options(url) }).await,
        }
    }
}

#[tokio::test]
async fn the_server_within_the_process_conforms() {
    conform(&Source::Fake).await;
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn redis_conforms() {
    conform(&Source::Redis(address())).await;
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn a_redis_cluster_conforms() {
    let cluster = Cluster::start().await;
    conform(&Source::Redis(cluster.url())).await;
}

async fn conform(source: &Source) {
    cells(&*source.fresh(SHORT).await).await;
    ages(&*source.fresh(SHORT).await).await;
    takeover(&*source.fresh(SHORT).await).await;
    batches(&*source.fresh(SHORT).await).await;
    wakes(&*source.fresh(SHORT).await).await;
    numbers(&*source.fresh(SHORT).await).await;
    chain(&*source.fresh(SHORT).await).await;
    subscribed_first(&*source.fresh(SHORT).await).await;
    sent_again(&*source.fresh(SHORT).await).await;
    registry(&*source.fresh(SHORT).await).await;
    silence(&*source.fresh(Retention { silent: Duration::from_millis(50), ..SHORT }).await).await;
    epochs(&*source.fresh(SHORT).await).await;
}

fn keys<const N: usize>(names: [&str; N]) -> [String; N] {
    names.map(|name| format!("1:a:{name}"))
}

fn value(version: u64, token: u64, text: &str) -> Cell {
    let mut cell = Cell::value(3, Version::new(version), text.as_bytes().to_vec());
    cell.header = Header { token, written_ms: 0, ..cell.header };
    cell
}

fn entry(nonce: u64) -> LogEntry<'static> {
    LogEntry { nonce, message: b"message", strict: false }
}

async fn next_news(frames: &mut Box<dyn Frames>) -> News {
    timeout(PATIENCE, frames.next()).await.expect("news was expected").expect("nothing was lost")
}

/// The next entry of the log that is received.
async fn next_entry(frames: &mut Box<dyn Frames>) -> Frame {
    let News::Entry(bytes) = next_news(frames).await else { panic!("an entry was expected") };
    Frame::from_bytes(&bytes).unwrap()
}

/// A copy is kept for as long as it may, and of a fill that counts from the lease.
async fn ages(shared: &dyn SharedBackend) {
    let key = keys(["k"]);
    let limited = |ttl_max, cell| [(key[0].clone(), Cell { ttl_max: Some(ttl_max), ..cell })];
    let short = Duration::from_secs(1);
    shared.acquire(&key, 1).await.unwrap();
    assert_eq!(shared.fill(&limited(short, value(4, 1, "four"))).await.unwrap(), [FillResult::Stored]);
    eventually("the copy goes", async || shared.read(&key).await.unwrap() == [None]).await;
    shared.acquire(&key, 2).await.unwrap();
    tokio::time::sleep(short).await;
    assert_eq!(shared.fill(&limited(short, value(4, 2, "four"))).await.unwrap(), [FillResult::Gone]);
    assert_eq!(shared.read(&key).await.unwrap(), [None], "not its lease either");
    shared.acquire(&key, 3).await.unwrap();
    shared.fill(&limited(SHORT.copies, value(4, 3, "four"))).await.unwrap();
    let put = [(key[0].clone(), CellWrite::Put(Cell { ttl_max: Some(short), ..value(5, 9, "five") }))];
    shared.change(1, &put, entry(1)).await.unwrap();
    eventually("the copy goes", async || shared.read(&key).await.unwrap() == [None]).await;
}

/// A load misses, leases, fills; another waits, then hits. A write leaves a floor.
async fn cells(shared: &dyn SharedBackend) {
    let key = keys(["k"]);
    assert_eq!(shared.read(&key).await.unwrap(), [None]);
    assert_eq!(shared.acquire(&key, 1).await.unwrap(), [Acquired::Leased { floor: Version::UNVERSIONED }]);
    assert!(
        matches!(shared.acquire(&key, 2).await.unwrap()[0], Acquired::Wait(left) if left <= SHORT.takeover)
    );
    assert_eq!(shared.fill(&[(key[0].clone(), value(4, 2, "x"))]).await.unwrap(), [FillResult::Lost]);
    let filling = [(key[0].clone(), value(4, 1, "four"))];
    assert_eq!(shared.fill(&filling).await.unwrap(), [FillResult::Stored]);
    assert_eq!(shared.fill(&filling).await.unwrap(), [FillResult::Stored]);
    assert_eq!(shared.read(&key).await.unwrap(), [Some(value(4, 1, "four"))]);
    assert_eq!(shared.heads(&key).await.unwrap(), [Some(value(4, 1, "four").header)]);
    assert_eq!(shared.acquire(&key, 3).await.unwrap(), [Acquired::Hit(value(4, 1, "four"))]);
    let put = [(key[0].clone(), CellWrite::Put(value(5, 9, "five")))];
    shared.change(1, &put, entry(1)).await.unwrap();
    assert_eq!(shared.read(&key).await.unwrap(), [Some(value(5, 9, "five"))]);
    let written = [(key[0].clone(), CellWrite::Invalidate(Some(Version::new(8))))];
    shared.change(1, &written, entry(2)).await.unwrap();
    assert_eq!(shared.acquire(&key, 4).await.unwrap(), [Acquired::Leased { floor: Version::new(8) }]);
    assert_eq!(shared.fill(&[(key[0].clone(), value(7, 4, "x"))]).await.unwrap(), [FillResult::Old]);
    shared.release(&key, 4).await.unwrap();
    assert_eq!(shared.read(&key).await.unwrap(), [Some(Cell::bare(CellKind::Tomb, Version::new(8), 0))]);
    shared.change(1, &[(key[0].clone(), CellWrite::Invalidate(None))], entry(3)).await.unwrap();
    assert_eq!(shared.read(&key).await.unwrap(), [None]);
}

/// A lease whose holder is gone goes to another load, with its floor; the first one fills no more.
async fn takeover(shared: &dyn SharedBackend) {
    let key = keys(["k"]);
    let floor = Version::new(6);
    shared.change(1, &[(key[0].clone(), CellWrite::Invalidate(Some(floor)))], entry(1)).await.unwrap();
    assert_eq!(shared.acquire(&key, 1).await.unwrap(), [Acquired::Leased { floor }]);
    eventually("the lease is taken over", async || {
        shared.acquire(&key, 2).await.unwrap() == [Acquired::Leased { floor }]
    })
    .await;
    assert_eq!(shared.fill(&[(key[0].clone(), value(9, 1, "x"))]).await.unwrap(), [FillResult::Lost]);
}

/// Answers come in the order of the keys; no keys and many keys work like a single key.
async fn batches(shared: &dyn SharedBackend) {
    assert_eq!(shared.read(&[]).await.unwrap(), []);
    assert_eq!(shared.heads(&[]).await.unwrap(), []);
    assert_eq!(shared.acquire(&[], 1).await.unwrap(), []);
    assert_eq!(shared.fill(&[]).await.unwrap(), []);
    shared.release(&[], 1).await.unwrap();
    let keys: Vec<String> = (0..300).map(|number| format!("1:a:{number}")).collect();
    shared.acquire(&keys[..200], 1).await.unwrap();
    let filling: Vec<_> = keys[..100].iter().map(|key| (key.clone(), value(2, 1, key))).collect();
    assert!(shared.fill(&filling).await.unwrap().iter().all(|filled| *filled == FillResult::Stored));
    shared.release(&keys[100..150], 1).await.unwrap();
    let found = shared.read(&keys).await.unwrap();
    let heads = shared.heads(&keys).await.unwrap();
    for (at, (found, head)) in found.iter().zip(&heads).enumerate() {
        let expected = match at {
            0..100 => Some(value(2, 1, &keys[at])),
            150..200 => Some(Cell::bare(CellKind::Lease, Version::UNVERSIONED, 1)),
            _ => None,
        };
        assert_eq!((found, head), (&expected, &expected.as_ref().map(|cell| cell.header)), "{at}");
    }
    let (leased, acquired) =
        (Acquired::Leased { floor: Version::UNVERSIONED }, shared.acquire_absent(&keys, 2).await.unwrap());
    for (at, acquired) in acquired.into_iter().enumerate() {
        match at {
            0..100 => assert_eq!(acquired, Acquired::Hit(value(2, 1, &keys[at]))),
            // Unless so much time went by that it may be taken over.
            150..200 if acquired != leased => assert!(matches!(acquired, Acquired::Wait(_)), "{at}"),
            _ => assert_eq!(acquired, leased, "{at}"),
        }
    }
}

/// A task that waits for a lease is notified of its end, whatever ends it, and in whichever epoch.
async fn wakes(shared: &dyn SharedBackend) {
    let keys = keys(["fill", "release", "write", "delete", "put", "not-waited", "last"]);
    let mut here = shared.subscribe(1, 1).await.unwrap();
    let mut there = shared.subscribe(2, 1).await.unwrap();
    shared.acquire(&keys, 1).await.unwrap();
    let waited: Vec<String> = keys.iter().filter(|key| !key.contains("not-waited")).cloned().collect();
    shared.acquire(&waited, 2).await.unwrap();
    shared.fill(&[(keys[0].clone(), value(4, 1, "x")), (keys[5].clone(), value(4, 1, "x"))]).await.unwrap();
    shared.release(&keys[1..2], 1).await.unwrap();
    let writes = [
        CellWrite::Invalidate(Some(Version::new(5))),
        CellWrite::Invalidate(None),
        CellWrite::Put(value(5, 0, "x")),
    ];
    shared.change(3, &keys[2..5].iter().cloned().zip(writes).collect::<Vec<_>>(), entry(1)).await.unwrap();
    shared.release(&keys[6..], 1).await.unwrap();
    for frames in [&mut here, &mut there] {
        let mut woken = BTreeSet::new();
        while !woken.contains(&keys[6]) {
            let News::LeaseEnded(key) = next_news(frames).await else { panic!("only wakes were expected") };
            woken.insert(key);
        }
        assert_eq!(woken, waited.iter().cloned().collect());
    }
}

/// 1, 2, 3, ... whatever is trimmed; epochs have logs of their own.
async fn numbers(shared: &dyn SharedBackend) {
    for number in 1..=450 {
        assert_eq!(shared.change(1, &[], entry(number)).await.unwrap().number, number);
    }
    let first = shared.replay(1, 1, 1_000).await.unwrap().first().unwrap().number;
    assert!(first > 200, "the log is trimmed: {first}");
    assert_eq!(shared.change(1, &[], entry(451)).await.unwrap().number, 451);
    assert_eq!(shared.change(2, &[], entry(1)).await.unwrap().number, 1);
    let page = shared.replay(1, 440, 5).await.unwrap();
    assert_eq!(page.iter().map(|frame| frame.number).collect::<Vec<_>>(), [440, 441, 442, 443, 444]);
    assert_eq!(shared.replay(1, 452, 5).await.unwrap(), []);
    assert_eq!(shared.replay(7, 0, 5).await.unwrap(), []);
}

/// Every entry names the previous entry, and the log contains what was published.
async fn chain(shared: &dyn SharedBackend) {
    let mut frames = shared.subscribe(1, 1).await.unwrap();
    let mut position = LogPosition::at(0, 0);
    for nonce in 100..150 {
        shared.change(1, &[], entry(nonce)).await.unwrap();
        let frame = next_entry(&mut frames).await;
        assert_eq!((position.classify(&frame), frame.nonce), (FrameOrder::Next, nonce));
        assert_eq!(frame.message, b"message");
        position.advance(&frame);
        assert_eq!(shared.replay(1, frame.number, 1).await.unwrap(), [frame]);
    }
    let probed = shared.enter(1, &Heartbeat::default()).await.unwrap();
    assert_eq!((probed.number, probed.nonce), (50, 149));
}

/// Messages that are published after a subscription exists are received.
async fn subscribed_first(shared: &dyn SharedBackend) {
    for nonce in 1..=30 {
        let mut frames = shared.subscribe(1, nonce).await.unwrap();
        let number = shared.change(1, &[], entry(nonce)).await.unwrap().number;
        assert_eq!(next_entry(&mut frames).await.number, number);
    }
}

/// A change that is sent again because its answer was lost is published once.
async fn sent_again(shared: &dyn SharedBackend) {
    let mut frames = shared.subscribe(1, 9).await.unwrap();
    for (nonce, number) in [(7, 1), (7, 1), (8, 2), (8, 2), (7, 3)] {
        assert_eq!(shared.change(1, &[], entry(nonce)).await.unwrap().number, number);
    }
    for nonce in [7, 8, 7] {
        assert_eq!(next_entry(&mut frames).await.nonce, nonce);
    }
    assert_eq!(shared.replay(1, 1, 10).await.unwrap().len(), 3);
}

/// Nodes register by probes; a strict change lists them; only the nodes that asked receive a confirmation.
async fn registry(shared: &dyn SharedBackend) {
    let alive = |node, applied| Heartbeat { node, applied, about: format!("node {node}") };
    assert_eq!(shared.peers(1).await.unwrap(), []);
    for node in [u64::MAX, 3, 2] {
        shared.enter(1, &alive(node, 0)).await.unwrap();
        assert_eq!(shared.probe(1, &alive(node, node / 2)).await.unwrap().number, 0);
    }
    let peers = shared.peers(1).await.unwrap();
    let seen = |peers: &[kith_cache::remote::Peer]| {
        peers.iter().map(|peer| (peer.node, peer.applied, peer.about.clone())).collect::<BTreeSet<_>>()
    };
    let expected =
        [(2, 1), (3, 1), (u64::MAX, u64::MAX / 2)].map(|(node, at)| (node, at, format!("node {node}")));
    assert_eq!(seen(&peers), BTreeSet::from(expected));
    assert!(peers.iter().all(|peer| peer.silent < PATIENCE));
    assert!(peers.is_sorted_by_key(|peer| peer.node));
    let strict = LogEntry { strict: true, ..entry(1) };
    let positions = shared.change(1, &[], strict).await.unwrap().peers;
    let positions: BTreeSet<_> = positions.iter().map(|peer| (peer.node, peer.applied)).collect();
    assert_eq!(positions, peers.iter().map(|peer| (peer.node, peer.applied)).collect());
    assert_eq!(shared.change(1, &[], entry(2)).await.unwrap().peers, []);
    let (mut two, mut three) = (shared.subscribe(1, 2).await.unwrap(), shared.subscribe(1, 3).await.unwrap());
    let confirmed = Confirmation { node: 3, number: 2 };
    shared.confirm(1, &[2], confirmed).await.unwrap();
    shared.confirm(1, &[2], Confirmation { node: 77, number: 2 }).await.unwrap();
    assert_eq!(next_news(&mut two).await, News::Confirmed(confirmed));
    assert_eq!(next_news(&mut two).await, News::Confirmed(Confirmation { node: 77, number: 2 }));
    let earlier = Confirmation { node: 3, number: 1 };
    shared.confirm(1, &[3, 2], earlier).await.unwrap();
    for frames in [&mut two, &mut three] {
        assert_eq!(next_news(frames).await, News::Confirmed(earlier), "each of those that asked");
    }
    shared.leave(1, 2).await.unwrap();
    let peers = shared.peers(1).await.unwrap();
    let numbers: Vec<_> = peers.iter().map(|peer| (peer.node, peer.applied)).collect();
    assert_eq!(numbers, [(3, 2), (u64::MAX, u64::MAX / 2)], "raised, never lowered; none that is not there");
    assert_eq!(shared.peers(2).await.unwrap(), []);
}

/// A node that was silent for long is forgotten.
async fn silence(shared: &dyn SharedBackend) {
    shared.enter(1, &Heartbeat { node: 5, ..Heartbeat::default() }).await.unwrap();
    eventually("it is forgotten", async || shared.peers(1).await.unwrap().is_empty()).await;
    let strict = LogEntry { strict: true, ..entry(1) };
    assert_eq!(shared.change(1, &[], strict).await.unwrap().peers, []);
}

/// A change or probe in an epoch that was left, or that the server never received, gets an answer that shows
/// it.
async fn epochs(shared: &dyn SharedBackend) {
    assert_eq!(shared.probe(3, &Heartbeat::default()).await.unwrap().epoch, 0, "a probe teaches nothing");
    assert_eq!(shared.change(3, &[], entry(1)).await.unwrap().epoch, 0);
    assert_eq!(shared.enter(4, &Heartbeat::default()).await.unwrap().epoch, 4);
    assert_eq!(shared.change(4, &[], entry(1)).await.unwrap().epoch, 4);
    assert_eq!(
        shared.enter(5_000_000_000_000, &Heartbeat::default()).await.unwrap().epoch,
        5_000_000_000_000
    );
    assert_eq!(shared.change(4, &[], entry(2)).await.unwrap().epoch, 5_000_000_000_000);
    assert_eq!(shared.enter(4, &Heartbeat::default()).await.unwrap().epoch, 5_000_000_000_000);
    assert_eq!(shared.probe(4, &Heartbeat::default()).await.unwrap().number, 2, "its log is still there");
}
