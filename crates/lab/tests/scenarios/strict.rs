use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use kith_lab::{
    peers::{Peer, Peers},
    proxy::Mode,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::stage::{alone, beside, size, stage, turn};

/// Of a strict write, whatever has happened to another node.
const WRITE_MAX: Duration = Duration::from_secs(2);
/// Writers at once.
const WRITERS: u64 = 8;

/// What came of writes on the first node, each read on the second once it was acknowledged.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    acknowledged: u64,
    /// On a busy machine the bound of a change can go by: it decides nothing, and is made again.
    again: u64,
    /// Older than what was acknowledged.
    old: u64,
}

/// Tries of one write before it is given up.
const TRIES: u64 = 100;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(50);

async fn acknowledged(peer: &Peer, key: u64, seen: &mut Seen) -> u64 {
    for _ in 0..TRIES {
        if let Ok((version, _)) = peer.strict().write(key).await {
            seen.acknowledged += 1;
            return version;
        }
        seen.again += 1;
        sleep(PAUSE).await;
    }
    panic!("no strict write is acknowledged: {seen:?}")
}

async fn seen(peers: &Peers, writes: u64) -> Seen {
    let mut writers = JoinSet::new();
    for key in 0..WRITERS {
        let (a, b) = (Arc::clone(peers.peer(0)), Arc::clone(peers.peer(1)));
        writers.spawn(async move {
            let mut seen = Seen::default();
            for _ in 0..writes / WRITERS {
                let version = acknowledged(&a, key, &mut seen).await;
                seen.old += u64::from(b.strict().read(key).await.is_ok_and(|read| read < version));
            }
            seen
        });
    }
    writers.join_all().await.into_iter().fold(Seen::default(), |sum, seen| Seen {
        acknowledged: sum.acknowledged + seen.acknowledged,
        again: sum.again + seen.again,
        old: sum.old + seen.old,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_write_is_seen_by_the_next_read_on_another_node() {
    let _turn = alone().await;
    let (peers, count) = (stage(2).await, size(1_000, 100_000));
    let began = Instant::now();
    let seen = seen(&peers, count).await;
    println!("strict writes on A, each then read on B, in {:.1?}: {seen:?}", began.elapsed());
    assert_eq!((seen.acknowledged, seen.old), (count, 0));
}

async fn with_b_cut(mode: Mode) {
    let peers = stage(2).await;
    assert_eq!(seen(&peers, WRITERS).await.old, 0, "B knows them");
    peers.nodes[1].link.set(mode);
    let (mut longest, mut old) = (Duration::ZERO, 0);
    for _ in 0..size(3, 20) {
        let began = Instant::now();
        let (version, _) = peers.peer(0).strict().write(0).await.unwrap();
        longest = longest.max(began.elapsed());
        old += u64::from(peers.peer(1).strict().read(0).await.is_ok_and(|read| read < version));
    }
    println!("strict writes with B cut ({mode:?}): {old} old, the longest took {longest:.1?}");
    assert_eq!(old, 0);
    assert!(longest <= WRITE_MAX, "{longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_node_decides_by_no_old_value() {
    let _turn = turn().await;
    let modes = [Mode::Refuse, Mode::Freeze, Mode::Deaf];
    beside(modes.map(|mode| -> Pin<Box<dyn Future<Output = ()>>> { Box::pin(with_b_cut(mode)) })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_write_waits_for_a_dead_node_no_longer_than_its_deadline() {
    let _turn = turn().await;
    let peers = stage(3).await;
    // After the start, and after a new epoch, writers wait for nodes that may have been there before.
    sleep(WRITE_MAX).await;
    peers.peer(2).kill();
    peers.nodes[2].link.set(Mode::Refuse);
    let began = Instant::now();
    let (version, _) = peers.peer(0).strict().write(5).await.unwrap();
    let took = began.elapsed();
    println!("a strict write with a dead node took {took:.1?}");
    assert_eq!(peers.peer(1).strict().read(5).await.unwrap(), version);
    assert!(took <= WRITE_MAX, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_writer_that_is_cut_itself_acknowledges_nothing() {
    let _turn = turn().await;
    let peers = stage(2).await;
    for mode in [Mode::Refuse, Mode::Freeze] {
        peers.nodes[0].link.set(mode);
        assert!(peers.peer(0).strict().write(6).await.is_err(), "{mode:?}");
        peers.heal();
        peers.until_trusted(Duration::from_secs(10)).await.unwrap();
    }
}
