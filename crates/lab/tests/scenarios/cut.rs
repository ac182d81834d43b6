use std::time::{Duration, Instant};

use kith_lab::{peers::Peers, proxy::Mode};
use tokio::time::sleep;

use crate::stage::{BOUND, FAULT, assert_in_bounds, readers, size, stage, told, turn, warm, writes};

/// How the nodes after the first are cut.
const CUTS: [Mode; 3] = [Mode::Refuse, Mode::Freeze, Mode::Deaf];

fn cut(peers: &Peers) {
    for (node, mode) in peers.nodes[1..].iter().zip(CUTS) {
        node.link.set(mode);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_hears_of_writes_elsewhere_in_time_and_reads_on() {
    let _turn = turn().await;
    let (peers, keys) = (stage(4).await, size(500, 1_000));
    warm(&peers, keys).await;
    let readers = readers(&peers, keys);
    cut(&peers);
    let refused = writes(peers.peer(0), 0..keys, FAULT).await;
    assert_eq!(refused, 0);
    told(peers.peer(0)).await;
    sleep(BOUND).await;
    let cut = peers.stale(0..keys).await.unwrap();
    peers.heal();
    sleep(BOUND).await;
    let (tally, stale) = (readers.end().await, peers.stale(0..keys).await.unwrap());
    println!(
        "nodes cut (closed, frozen, half open), {keys} writes elsewhere: {cut} stale while cut, {stale} after; {tally}"
    );
    assert_eq!((cut, stale), (0, 0));
    assert_in_bounds(&tally);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_cut_node_writes_is_told_when_it_is_back() {
    let _turn = turn().await;
    let (peers, each) = (stage(4).await, size(200, 1_000));
    let keys = each * 3;
    warm(&peers, keys).await;
    let readers = readers(&peers, keys);
    cut(&peers);
    let (closed, frozen, deaf) = tokio::join!(
        writes(peers.peer(1), 0..each, FAULT),
        writes(peers.peer(2), each..2 * each, FAULT),
        writes(peers.peer(3), 2 * each..keys, FAULT),
    );
    let refused = closed + frozen + deaf;
    let waiting: usize = peers.nodes.iter().map(|node| node.peer.waiting()).sum();
    peers.heal();
    let healed = Instant::now();
    sleep(BOUND).await;
    let (tally, stale) = (readers.end().await, peers.stale(0..keys).await.unwrap());
    let late = tally.late.map(|late| late.saturating_duration_since(healed)).unwrap_or_default();
    println!(
        "{each} writes on each of the cut nodes: {refused} refused, {waiting} waited, {stale} stale after, last {late:.1?} after; {tally}"
    );
    assert_eq!((refused, stale), (0, 0));
    assert_in_bounds(&tally);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_flaps_leaves_nothing_stale() {
    let _turn = turn().await;
    let (peers, keys) = (stage(3).await, 100);
    warm(&peers, keys).await;
    let readers = readers(&peers, keys);
    let flapping = async {
        for _ in 0..size(10, 50) {
            peers.nodes[1].link.cut();
            sleep(Duration::from_millis(150)).await;
        }
    };
    let time = Duration::from_millis(150 * size(10, 50));
    let (refused, ()) = tokio::join!(writes(peers.peer(0), 0..keys, time), flapping);
    sleep(BOUND).await;
    let (tally, stale) = (readers.end().await, peers.stale(0..keys).await.unwrap());
    println!("a node cut again and again: {refused} refused, {stale} stale after; {tally}");
    assert_eq!((refused, stale), (0, 0));
    assert_in_bounds(&tally);
}
