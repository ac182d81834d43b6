//! Checks sampled writes: 1, 10 and 60 s after a write, no other node may have an older version in its
//! memory.

use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use kith_cache::Version;
use kith_service::write::mutations::WriteListener;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{
    ask::{Nodes, Peer, is_stale},
    findings::{AGES, Findings},
};

/// A sample of this node's writes, to be checked on other nodes later.
#[derive(Debug)]
pub(crate) struct Samples {
    every: u64,
    written: AtomicU64,
    /// Creates the sample with this limit on waiting writes.
    room: Arc<Semaphore>,
    sender: mpsc::Sender<Sample>,
}

/// A sampled write.
#[derive(Debug)]
pub(super) struct Sample {
    namespace: &'static str,
    key: String,
    version: u64,
    written: Instant,
    /// Holds its place among the waiting writes.
    _place: OwnedSemaphorePermit,
}

impl Samples {
    /// Samples one write in `every`, as long as no more than `waiting_max` wait. Returns the receiver, too.
    pub(super) fn new(every: u64, waiting_max: usize) -> (Arc<Self>, mpsc::Receiver<Sample>) {
        let (sender, receiver) = mpsc::channel(waiting_max);
        let room = Arc::new(Semaphore::new(waiting_max));
        (Arc::new(Self { every, written: AtomicU64::new(0), room, sender }), receiver)
    }
}

impl WriteListener for Samples {
    fn wrote(&self, namespace: &'static str, key: &dyn Display, version: Version) {
        if !self.written.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every) {
            return;
        }
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else { return };
        let (key, version) = (key.to_string(), version.get());
        let sample = Sample { namespace, key, version, written: Instant::now(), _place: place };
        // The observer may have ended.
        drop(self.sender.try_send(sample));
    }
}

/// Checks all sampled writes, at each age, until it is dropped.
pub(super) async fn follow(
    mut samples: mpsc::Receiver<Sample>,
    nodes: Arc<dyn Nodes>,
    findings: Arc<Findings>,
    trust: Duration,
) {
    let mut checks = JoinSet::new();
    loop {
        tokio::select! {
            Some(sample) = samples.recv() => {
                let (nodes, findings) = (Arc::clone(&nodes), Arc::clone(&findings));
                checks.spawn(async move { check_sample(&sample, &*nodes, &findings, trust).await });
            }
            Some(_checked) = checks.join_next() => {}
            else => return,
        }
    }
}

async fn check_sample(sample: &Sample, nodes: &dyn Nodes, findings: &Findings, trust: Duration) {
    for after in AGES {
        sleep_until(sample.written + after).await;
        if !nodes.can_judge() {
            continue;
        }
        let others = nodes.others().await;
        let checks = others.iter().map(|peer| is_stale_at(&**peer, sample, nodes, trust));
        let found: Vec<bool> = join_all(checks).await.into_iter().flatten().collect();
        found.iter().for_each(|stale| findings.checked(after, *stale));
        findings.log_stale(sample.namespace, after, found.into_iter().filter(|stale| *stale).count());
    }
}

async fn is_stale_at(peer: &dyn Peer, sample: &Sample, nodes: &dyn Nodes, trust: Duration) -> Option<bool> {
    let asked = || peer.held(sample.namespace, &sample.key);
    let held = asked().await?;
    is_stale(nodes, held, sample.version, trust, asked()).await
}

#[cfg(test)]
mod tests {
    use tokio::{task::JoinHandle, time::sleep};

    use super::*;
    use crate::cluster::observer::{
        ask::PeerCopy,
        fake::{ExportedFindings, FakeNodes, FakePeer, cut_off_with, holds},
    };

    const TRUST: Duration = Duration::from_millis(1_500);
    /// A time after the last check and its time limit.
    const ALL: Duration = Duration::from_secs(65);

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn following(
        nodes: Arc<FakeNodes>,
        every: u64,
        waiting_max: usize,
        found: &ExportedFindings,
    ) -> Following {
        let (samples, receiver) = Samples::new(every, waiting_max);
        let task = tokio::spawn(follow(receiver, nodes, Arc::clone(&found.findings), TRUST));
        Following { samples, task }
    }

    struct Following {
        samples: Arc<Samples>,
        task: JoinHandle<()>,
    }

    impl Following {
        fn write(&self, version: u64) {
            self.samples.wrote("user", &7, Version::new(version));
        }
    }

    /// The finding about a node after a write with version 2.
    async fn found(nodes: Arc<FakeNodes>) -> [(u64, u64); 3] {
        let found = ExportedFindings::new(seconds(3));
        following(nodes, 1, 1, &found).write(2);
        sleep(ALL).await;
        ["1s", "10s", "60s"].map(|after| found.at(after))
    }

    #[tokio::test(start_paused = true)]
    async fn same_newer_or_no_copy_is_never_stale() {
        let nothing = Some(PeerCopy { version: None, trusted: true });
        let (same, newer) = (FakePeer::new(|_| holds(2)), FakePeer::new(|_| holds(3)));
        let empty = FakePeer::new(move |_| nothing);
        assert_eq!(found(FakeNodes::new(&[&same, &newer, &empty])).await, [(3, 0); 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn old_copy_is_stale_at_the_ages_it_was_held() {
        let second = FakePeer::new(|passed| holds(if passed < seconds(5) { 1 } else { 2 }));
        assert_eq!(found(FakeNodes::new(&[&second])).await, [(1, 1), (1, 0), (1, 0)]);
        let always = FakePeer::new(|_| holds(1));
        assert_eq!(found(FakeNodes::new(&[&always])).await, [(1, 1); 3]);
        let absence_of_before = FakePeer::new(|_| holds(0));
        assert_eq!(found(FakeNodes::new(&[&absence_of_before])).await, [(1, 1); 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn absent_or_cut_off_nodes_are_not_counted() {
        let away = FakePeer::new(|_| None);
        let cut = FakePeer::new(|_| cut_off_with(1));
        let cut_a_moment_ago =
            FakePeer::new(|passed| if passed < seconds(2) { holds(1) } else { cut_off_with(1) });
        let peers = [&away, &cut, &cut_a_moment_ago];
        assert_eq!(found(FakeNodes::new(&peers)).await, [(0, 0); 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_cut_off_itself_blames_nobody() {
        let old = FakePeer::new(|_| holds(1));
        assert_eq!(found(FakeNodes::trusting(&[&old], |_| false)).await, [(0, 0); 3]);
        assert_eq!(old.asked(), 0);
        let notified_late = FakePeer::new(|passed| holds(if passed < seconds(8) { 1 } else { 2 }));
        let back =
            FakeNodes::trusting(&[&notified_late], |passed| passed < seconds(2) || passed > seconds(7));
        assert_eq!(found(back).await, [(0, 0), (1, 0), (1, 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn writes_beyond_the_queue_are_not_checked() {
        let found = ExportedFindings::new(seconds(3));
        let peer = FakePeer::new(|_| holds(9));
        let following = following(FakeNodes::new(&[&peer]), 1, 2, &found);
        (1..=5).for_each(|version| following.write(version));
        sleep(seconds(5)).await;
        following.write(6);
        sleep(ALL).await;
        assert_eq!([found.at("1s"), found.at("60s")], [(2, 0); 2]);
        following.write(7);
        sleep(ALL).await;
        assert_eq!([found.at("1s"), found.at("60s")], [(3, 0); 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_write_in_so_many_is_checked() {
        let found = ExportedFindings::new(seconds(3));
        let peer = FakePeer::new(|_| holds(30));
        let following = following(FakeNodes::new(&[&peer]), 10, 100, &found);
        (1..=25).for_each(|version| following.write(version));
        sleep(seconds(2)).await;
        assert_eq!(found.at("1s"), (3, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn checks_end_with_their_observer() {
        let found = ExportedFindings::new(seconds(3));
        let peer = FakePeer::new(|_| holds(1));
        let following = following(FakeNodes::new(&[&peer]), 1, 10, &found);
        following.write(2);
        sleep(Duration::from_millis(500)).await;
        following.task.abort();
        sleep(ALL).await;
        following.write(3);
        assert_eq!(peer.asked(), 0);
    }
}
