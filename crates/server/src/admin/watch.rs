//! A watched node's stream: the figures for every interval (ADR 0016).
//!
//! Counters exist already and are never reset, so a watcher stores their last values and subtracts. Without
//! watchers nothing runs.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use futures::stream::{self, BoxStream, StreamExt as _};
use kith_cache::Stats;
use kith_proto::admin::v1 as wire;
use kith_service::{
    error::{Error, Reason},
    rpc::versions::wire_duration,
};
use kith_store::Invalid;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};
use tonic::Status;

use super::{
    AdminRpc,
    convert::{signed, stats, within},
    stats,
};
use crate::edge::MethodCounts;

const INTERVAL: Duration = Duration::from_secs(1);
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(60);

/// The stream for a watcher.
pub(super) type NodeUpdates = BoxStream<'static, Result<wire::WatchNodeResponse, Status>>;

/// The limit on watchers.
#[derive(Clone, Debug)]
pub(super) struct Watchers(Arc<Semaphore>);

impl Watchers {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))))
    }

    fn acquire(&self) -> Result<OwnedSemaphorePermit, Error> {
        let full = |_| Error::new(Reason::Overloaded, "the node is watched by as many as may");
        Arc::clone(&self.0).try_acquire_owned().map_err(full)
    }
}

/// The values at the last reading.
struct LastReading {
    at: Instant,
    calls: Vec<MethodCounts>,
    namespaces: Vec<(&'static str, Stats)>,
    repairs: i64,
    calls_shed: i64,
    mutations_shed: i64,
}

struct Watcher {
    node: AdminRpc,
    ticks: Interval,
    before: LastReading,
    /// Released when the stream is dropped.
    _permit: OwnedSemaphorePermit,
}

impl AdminRpc {
    /// Sends a message after each interval, until the stream is dropped.
    ///
    /// # Errors
    /// INVALID_FIELD for an interval out of bounds, OVERLOADED if the limit on watchers is reached.
    pub(super) fn node_updates(&self, interval: Option<prost_types::Duration>) -> Result<NodeUpdates, Error> {
        let interval = bounded(interval)?;
        let permit = self.watchers.acquire()?;
        let mut ticks = interval_at(Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watcher = Watcher { node: self.clone(), ticks, before: self.read_figures(), _permit: permit };
        let updates = stream::unfold(watcher, |mut watcher| async move {
            watcher.ticks.tick().await;
            let update = watcher.next_update().await;
            Some((Ok(update), watcher))
        });
        Ok(updates.boxed())
    }

    fn read_figures(&self) -> LastReading {
        let namespaces = self.context.node.namespaces();
        let repairs = self.context.cluster.as_ref().map_or(0, |cluster| cluster.followed().repairs);
        LastReading {
            at: Instant::now(),
            calls: self.node_status.load().counted(),
            namespaces: namespaces.iter().map(|one| (one.name(), one.stats())).collect(),
            repairs: signed(repairs),
            calls_shed: signed(self.node_status.load().shed()),
            mutations_shed: signed(self.mutations.shed()),
        }
    }
}

impl Watcher {
    async fn next_update(&mut self) -> wire::WatchNodeResponse {
        let node = self.node.node().await;
        let now = self.node.read_figures();
        let calls = stats::calls_since(&now.calls, &self.before.calls);
        let before = std::mem::replace(&mut self.before, now);
        let now = &self.before;
        wire::WatchNodeResponse {
            node: Some(node),
            interval: Some(wire_duration(now.at.duration_since(before.at))),
            calls: Some(stats::of_callers(&calls)),
            methods: stats::of_methods(&calls),
            namespaces: now.namespaces_since(&before),
            repairs: now.repairs - before.repairs,
            calls_shed: now.calls_shed - before.calls_shed,
            mutations_shed: now.mutations_shed - before.mutations_shed,
        }
    }
}

impl LastReading {
    fn namespaces_since(&self, before: &Self) -> Vec<wire::NamespaceStats> {
        let since = |(name, now): &(&'static str, Stats)| {
            let before = before.namespaces.iter().find(|(other, _)| other == name);
            let before = before.map_or_else(Stats::default, |(_, before)| *before);
            stats(name, &stats::stats_since(now, &before))
        };
        self.namespaces.iter().map(since).collect()
    }
}

fn bounded(interval: Option<prost_types::Duration>) -> Result<Duration, Error> {
    within(interval, INTERVAL, &INTERVALS).ok_or_else(|| {
        let [least, most] = [*INTERVALS.start(), *INTERVALS.end()].map(humantime::format_duration);
        Error::invalid("interval", &Invalid::new(format!("must be {least} to {most}")))
    })
}
