//! Those who read on every node and write all the while, and judge what they read.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::transport::Channel;

use super::{
    cluster::{Cluster, read, write},
    met::{Answer, Met},
};

/// Readers of each node.
const READERS: u64 = 2;
const BETWEEN_READS: Duration = Duration::from_millis(2);
const BETWEEN_WRITES: Duration = Duration::from_millis(20);
/// Users that are read and written.
const USERS: usize = 100;

/// They stop when this is dropped.
#[derive(Debug)]
pub(super) struct Crowd {
    seen: Arc<Seen>,
    tasks: JoinSet<()>,
}

/// What all of them know.
#[derive(Debug, Default)]
struct Seen {
    /// Of each user, the versions that were acknowledged, and when.
    written: Mutex<HashMap<i64, Vec<(i64, Instant)>>>,
    /// Of this chapter.
    met: Mutex<Met>,
    all: Mutex<Met>,
    writes: Mutex<Writes>,
}

/// Of this chapter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writes {
    pub(super) done: u64,
    pub(super) refused: u64,
}

impl Crowd {
    pub(super) fn gather(cluster: &Cluster) -> Self {
        let (seen, mut tasks) = (Arc::new(Seen::default()), JoinSet::new());
        let users: Arc<[i64]> = cluster.users.iter().copied().take(USERS).collect();
        let nodes: Vec<Channel> = cluster.nodes().map(|(_, node)| node).collect();
        for (node, seed) in nodes.iter().cycle().zip(0..READERS * u64::try_from(nodes.len()).unwrap_or(1)) {
            let (seen, users, random) =
                (Arc::clone(&seen), Arc::clone(&users), SmallRng::seed_from_u64(seed));
            tasks.spawn(reads(seen, users, node.clone(), random));
        }
        // Those of the last node would be refused while it is gone.
        let (seen_by_writer, first) = (Arc::clone(&seen), nodes.into_iter().take(2).collect());
        tasks.spawn(writes(seen_by_writer, users, first));
        Self { seen, tasks }
    }

    /// What was met since this was last asked.
    pub(super) fn met(&self) -> (Met, Writes) {
        let met = std::mem::take(&mut *self.seen.met.lock());
        self.seen.all.lock().add(&met);
        (met, std::mem::take(&mut *self.seen.writes.lock()))
    }

    /// Ends it; what all have met.
    pub(super) async fn part(mut self) -> Met {
        self.tasks.shutdown().await;
        let (_last, _writes) = self.met();
        self.seen.all.lock().clone()
    }
}

impl Seen {
    /// How long before this moment something newer had been acknowledged.
    fn age(&self, user_id: i64, version: i64, asked: Instant) -> Duration {
        let written = self.written.lock();
        let newer = written.get(&user_id).into_iter().flatten().filter(|(newer, _)| *newer > version);
        let first = newer.map(|(_, acknowledged)| *acknowledged).min();
        first.map_or(Duration::ZERO, |acknowledged| asked.saturating_duration_since(acknowledged))
    }
}

async fn reads(seen: Arc<Seen>, users: Arc<[i64]>, node: Channel, mut random: SmallRng) {
    loop {
        let user_id = users[random.random_range(0..users.len())];
        let asked = Instant::now();
        match read(node.clone(), user_id).await {
            Ok(read) => {
                let age = seen.age(user_id, read.version, asked);
                seen.met.lock().answered(&Answer { tier: read.tier, took: read.took, age });
            }
            Err(_refused) => seen.met.lock().refused(),
        }
        sleep(BETWEEN_READS).await;
    }
}

async fn writes(seen: Arc<Seen>, users: Arc<[i64]>, nodes: Vec<Channel>) {
    for (number, (user_id, node)) in users.iter().cycle().zip(nodes.iter().cycle()).enumerate() {
        match write(node.clone(), *user_id, format!("somebody {number}")).await {
            Ok(version) => {
                seen.written.lock().entry(*user_id).or_default().push((version, Instant::now()));
                seen.writes.lock().done += 1;
            }
            Err(_refused) => seen.writes.lock().refused += 1,
        }
        sleep(BETWEEN_WRITES).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_old_as_the_first_write_that_it_lacks() {
        let (seen, began) = (Seen::default(), Instant::now());
        let at = |millis| began + Duration::from_millis(millis);
        seen.written.lock().insert(7, vec![(2, at(100)), (3, at(200))]);
        let age = |version, asked| seen.age(7, version, at(asked)).as_millis();
        assert_eq!((age(1, 250), age(2, 250), age(3, 250), age(1, 50)), (150, 50, 0, 0));
    }
}
