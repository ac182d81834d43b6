//! How soon a write on one node is seen on another.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use fred::interfaces::{EventInterface as _, PubsubInterface as _};
use futures::future::try_join_all;
use kith_cache::{
    Change, Consistency, LoadError, LoadOptions, Loaded, Loader, Policy, Position, TieredCache, Token,
    Version,
    remote::{Cell, Codec as _},
};
use kith_lab_servers::people;
use kith_service::write::record_codec::RecordCodec;
use kith_store::User;
use tokio::{
    task::yield_now,
    time::{Instant, timeout},
};

use super::{
    raw::RawRedis,
    site::{BenchCluster, Site},
};
use crate::{
    claims::{DROPPED, DROPPED_P99, NEW_READ, Plan},
    ratio::{Side, each, interleave, nanos},
    results::Results,
    rows::latency::Latency,
};

/// The longest time to wait for a change to be visible.
const PATIENCE: Duration = Duration::from_secs(2);
/// The record that is written, and a record that never is.
const WRITTEN: i64 = 1;
const QUIET: i64 = 2;

/// The store: one user under every key, with the version that was committed last.
#[derive(Debug)]
struct CurrentUser {
    user: Arc<User>,
    version: AtomicU64,
}

#[async_trait]
impl Loader<i64, User> for CurrentUser {
    async fn load(&self, _key: &i64, _options: LoadOptions) -> Result<Loaded<User>, LoadError> {
        let version = Version::new(self.version.load(Ordering::Acquire));
        Ok(Loaded::Found { value: Arc::clone(&self.user), version })
    }

    async fn load_many(
        &self,
        keys: &[i64],
        options: LoadOptions,
    ) -> Result<Vec<(i64, Loaded<User>)>, LoadError> {
        try_join_all(keys.iter().map(async |key: &i64| Ok((*key, self.load(key, options).await?)))).await
    }
}

/// Two nodes, and a bare channel's two ends.
struct PublishStage {
    one: Site,
    two: Site,
    at_one: TieredCache<i64, User>,
    at_two: TieredCache<i64, User>,
    store: Arc<CurrentUser>,
    raw: RawRedis,
    subscriber: RawRedis,
}

impl PublishStage {
    async fn new(url: &str) -> Result<Arc<Self>> {
        let cluster = BenchCluster::new(url);
        let (one, two) = (cluster.site().await?, cluster.site().await?);
        let (user, version) = (Arc::new(people::user(1)?), AtomicU64::new(1));
        let store = Arc::new(CurrentUser { user, version });
        let cache = |site: &Site| {
            let policy = Policy { early_refresh: 2.0, ..Policy::new("user", User::weight) };
            let loader = Arc::<CurrentUser>::clone(&store);
            TieredCache::shared(site.node(), policy, loader, site.sharing(), Arc::new(RecordCodec::USER))
        };
        let (at_one, at_two) = (cache(&one), cache(&two));
        let raw = RawRedis::connect(url, &cluster.tag()).await?;
        let subscriber = RawRedis::connect(url, &cluster.tag()).await?;
        subscriber.client.subscribe(subscriber.channel()).await?;
        // Its answer comes after the subscription is active.
        subscriber.ask_for_nothing(1).await?;
        let bytes = RecordCodec::USER.encode(&people::user(1)?);
        let copy = Cell::value(1, Version::new(1), bytes).to_bytes();
        raw.put(WRITTEN, copy).await?;
        Ok(Arc::new(Self { one, two, at_one, at_two, store, raw, subscriber }))
    }

    /// Writes the next version on the first node; returns when the write was committed and when it was done.
    async fn write(&self, version: u64) -> Result<(Instant, Instant)> {
        let guard = self.at_one.begin_write(&[WRITTEN]).await;
        self.store.version.store(version, Ordering::Release);
        let committed = Instant::now();
        let value = Arc::clone(&self.store.user);
        let change = Change::Put { value, version: Version::new(version) };
        guard.committed(vec![(WRITTEN, change)]).await?;
        Ok((committed, Instant::now()))
    }

    /// The version that the second node reads.
    async fn version(&self) -> Result<u64> {
        Ok(self.at_two.get(&WRITTEN).await?.context("a user is missing")?.version.get())
    }
}

pub(super) async fn rows(plan: &Plan, url: &str, results: &mut Results<'_>) -> Result<()> {
    let dropped = plan.wants_any(&[&DROPPED, &DROPPED_P99]);
    if !dropped && !plan.wants(&NEW_READ) {
        return Ok(());
    }
    let (stage, writes) = (PublishStage::new(url).await?, plan.size(1_000, 20));
    if dropped {
        let pairs = interleave(plan.rounds, async |side| match side {
            Side::Baseline => spawned(times_received(Arc::clone(&stage), writes, false)).await,
            Side::Kith => spawned(times_dropped(Arc::clone(&stage), writes)).await,
        });
        let pairs = pairs.await?;
        results.add(&DROPPED, &each(&pairs, |latency| latency.p50))?;
        results.add(&DROPPED_P99, &each(&pairs, |latency| latency.p99))?;
    }
    let read = interleave(plan.rounds, async |side| {
        let latency = match side {
            Side::Baseline => spawned(times_received(Arc::clone(&stage), writes, true)).await?,
            Side::Kith => spawned(times_read(Arc::clone(&stage), writes)).await?,
        };
        Ok(latency.p50)
    });
    results.row(&NEW_READ, Box::pin(read)).await
}

/// Runs on a runtime worker, as calls to a node do.
async fn spawned(times: impl Future<Output = Result<Latency>> + Send + 'static) -> Result<Latency> {
    tokio::spawn(times).await?
}

/// Measures the time from publishing to receiving and, on request, until a GET after it.
async fn times_received(stage: Arc<PublishStage>, times: usize, and_get: bool) -> Result<Latency> {
    let mut messages = stage.subscriber.client.message_rx();
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        let (channel, message) = (stage.raw.channel(), bytes::Bytes::from(vec![7; 100]));
        let begun = Instant::now();
        let publish = stage.raw.client.publish::<i64, _, _>(channel, message);
        let receive = async {
            timeout(PATIENCE, messages.recv()).await??;
            if and_get {
                stage.raw.user(stage.raw.key(WRITTEN)).await?;
            }
            Ok::<_, anyhow::Error>(begun.elapsed())
        };
        let (subscribers, received) = tokio::join!(publish, receive);
        ensure!(subscribers? >= 1, "the message has no subscriber");
        taken.push(nanos(received?) / 1e3);
    }
    Ok(Latency::of(taken))
}

/// Measures the time from the commit on one node until the other node's memory has dropped the old value:
/// until the second node, which has applied the change, asks for the next change.
async fn times_dropped(stage: Arc<PublishStage>, times: usize) -> Result<Latency> {
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        // Both have read it, and the second has applied all that was published.
        let version = until_settled(&stage).await? + 1;
        let number = stage.two.node().applied() + 1;
        let position = Position { partition: 0, epoch: stage.two.node().epoch(), number };
        let seen = async {
            let applied = Consistency::AtLeast(vec![Token::new(position)]);
            while stage.two.node().applied() < number {
                stage.at_two.get_with(&QUIET, &applied).await?;
            }
            Ok::<_, anyhow::Error>(stage.at_two.peek(&WRITTEN).is_none())
        };
        let (written, gone) = tokio::join!(stage.write(version), timeout(PATIENCE, seen));
        let ((committed, _), gone) = (written?, gone??);
        let dropped = timeout(PATIENCE, stage.two.applied_after(committed)).await?;
        ensure!(gone, "the second node still has it");
        taken.push(nanos(dropped.saturating_duration_since(committed)) / 1e3);
    }
    Ok(Latency::of(taken))
}

/// Measures the time from the write's end on one node to the first read on the other that gives its version.
async fn times_read(stage: Arc<PublishStage>, times: usize) -> Result<Latency> {
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        let version = until_settled(&stage).await? + 1;
        let (_, done) = stage.write(version).await?;
        let read = async {
            while stage.version().await? < version {
                yield_now().await;
            }
            Ok::<_, anyhow::Error>(Instant::now())
        };
        let read = timeout(PATIENCE, read).await??;
        taken.push(nanos(read.saturating_duration_since(done)) / 1e3);
    }
    Ok(Latency::of(taken))
}

/// Returns when both nodes have the record in memory and the second has applied what was published; returns
/// its version.
async fn until_settled(stage: &PublishStage) -> Result<u64> {
    let settled = async {
        let version = stage.store.version.load(Ordering::Acquire);
        stage.at_one.get(&WRITTEN).await?;
        stage.at_two.get(&QUIET).await?;
        // Memory is filled, and Redis holds this version, so that the next version replaces it.
        while stage.version().await? < version || stage.at_two.peek(&WRITTEN).is_none() {
            yield_now().await;
        }
        while stage.two.node().applied() < stage.one.node().applied() {
            yield_now().await;
        }
        Ok(version)
    };
    timeout(PATIENCE, settled).await?
}
