//! Readers on every node and a writer that run throughout the demonstration, and judge what they read.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::transport::Channel;

use super::{
    cluster::{Cluster, read, write},
    read_stats::{ReadStats, TimedAnswer},
};
use crate::faults::ages::AcknowledgedVersions;

/// Readers on each node.
const READERS: u64 = 2;
const BETWEEN_READS: Duration = Duration::from_millis(2);
const BETWEEN_WRITES: Duration = Duration::from_millis(20);
/// Users that are read and written.
const USERS: usize = 100;

/// Readers and a writer that stop when this is dropped.
#[derive(Debug)]
pub(super) struct DemoReaders {
    seen: Arc<DemoSeen>,
    tasks: JoinSet<()>,
}

/// The state that all readers and the writer share.
#[derive(Debug, Default)]
struct DemoSeen {
    ages: AcknowledgedVersions,
    /// Statistics for this chapter.
    stats: Mutex<ReadStats>,
    all: Mutex<ReadStats>,
    writes: Mutex<Writes>,
}

/// The writer's counts in this chapter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writes {
    pub(super) done: u64,
    pub(super) refused: u64,
}

impl DemoReaders {
    pub(super) fn start(cluster: &Cluster) -> Self {
        let (seen, mut tasks) = (Arc::new(DemoSeen::default()), JoinSet::new());
        let users: Arc<[i64]> = cluster.users.iter().copied().take(USERS).collect();
        let nodes: Vec<Channel> = cluster.nodes().map(|(_, node)| node).collect();
        for (node, seed) in nodes.iter().cycle().zip(0..READERS * u64::try_from(nodes.len()).unwrap_or(1)) {
            let (seen, users, random) =
                (Arc::clone(&seen), Arc::clone(&users), SmallRng::seed_from_u64(seed));
            tasks.spawn(reads(seen, users, node.clone(), random));
        }
        // Reads from the last node would be refused while it is gone.
        let (seen_by_writer, first) = (Arc::clone(&seen), nodes.into_iter().take(2).collect());
        tasks.spawn(writes(seen_by_writer, users, first));
        Self { seen, tasks }
    }

    /// The readers' observations since the last call.
    pub(super) fn take_stats(&self) -> (ReadStats, Writes) {
        let stats = std::mem::take(&mut *self.seen.stats.lock());
        self.seen.all.lock().add(&stats);
        (stats, std::mem::take(&mut *self.seen.writes.lock()))
    }

    /// Stops all readers. Returns what they observed in total.
    pub(super) async fn stop(mut self) -> ReadStats {
        self.tasks.shutdown().await;
        let (_last, _writes) = self.take_stats();
        self.seen.all.lock().clone()
    }
}

async fn reads(seen: Arc<DemoSeen>, users: Arc<[i64]>, node: Channel, mut random: SmallRng) {
    loop {
        let user_id = users[random.random_range(0..users.len())];
        let asked = Instant::now();
        match read(node.clone(), user_id).await {
            Ok(read) => {
                let age = seen.ages.age(user_id, read.version, asked);
                seen.stats.lock().answered(&TimedAnswer { tier: read.tier, took: read.took, age });
            }
            Err(_refused) => seen.stats.lock().refused(),
        }
        sleep(BETWEEN_READS).await;
    }
}

async fn writes(seen: Arc<DemoSeen>, users: Arc<[i64]>, nodes: Vec<Channel>) {
    for (number, (user_id, node)) in users.iter().cycle().zip(nodes.iter().cycle()).enumerate() {
        match write(node.clone(), *user_id, format!("person {number}")).await {
            Ok(version) => {
                seen.ages.written(*user_id, version);
                seen.writes.lock().done += 1;
            }
            Err(_refused) => seen.writes.lock().refused += 1,
        }
        sleep(BETWEEN_WRITES).await;
    }
}
