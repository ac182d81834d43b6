//! Collects information about a node with one set of requests.

use std::time::{Duration, SystemTime};

use crate::client::Channel;
use anyhow::Result;
use kith_proto::admin::v1::{
    GetCacheStatsRequest, GetNodeRequest, GetNodeResponse, NamespaceStats,
    admin_service_client::AdminServiceClient,
};
use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::client::{Target, message_of};

/// Information about a node.
#[derive(Debug)]
pub(super) struct Facts {
    /// Whether its health says that it serves.
    pub(super) serving: bool,
    /// Its identity; absent while it starts.
    pub(super) node: Option<GetNodeResponse>,
    /// Each namespace's figures; empty while the node starts.
    pub(super) memory: Vec<NamespaceStats>,
    /// How far the node's clock is ahead; negative: behind. Half the round trip is subtracted.
    pub(super) clock_ahead_seconds: Option<f64>,
}

/// Returns a node's health, and how long the answer took. Fails if it does not answer.
pub(super) async fn health(target: &Target, channel: Channel) -> Result<(bool, Duration), Status> {
    let begun = Instant::now();
    let mut client = HealthClient::new(channel);
    let answer = target.answer(client.check(target.request(HealthCheckRequest::default()))).await?;
    Ok((answer.into_inner().status() == ServingStatus::Serving, begun.elapsed()))
}

impl Facts {
    /// Asks a node. Fails if it does not answer, or refuses.
    pub(super) async fn of(target: &Target) -> Result<Self> {
        let channel = target.connect_now().await?;
        Self::query(target, channel).await.map_err(|status| {
            anyhow::anyhow!(
                "{} answers {:?} and not what it is: {}",
                target.addr,
                status.code(),
                message_of(&status)
            )
        })
    }

    async fn query(target: &Target, channel: Channel) -> Result<Self, Status> {
        let (serving, _) = health(target, channel.clone()).await?;
        let mut client = AdminServiceClient::new(channel);
        let (begun, before) = (Instant::now(), SystemTime::now());
        let node = match target.answer(client.get_node(target.request(GetNodeRequest {}))).await {
            Ok(answer) => answer.into_inner(),
            // Without its store a node serves only health.
            Err(status) if status.code() == Code::Unavailable && !serving => {
                return Ok(Self { serving, node: None, memory: Vec::new(), clock_ahead_seconds: None });
            }
            Err(status) => return Err(status),
        };
        let middle = before + begun.elapsed() / 2;
        let stats = client.get_cache_stats(target.request(GetCacheStatsRequest {}));
        let memory = target.answer(stats).await?.into_inner().namespaces;
        let clock = node.time.and_then(|time| SystemTime::try_from(time).ok());
        let clock_ahead_seconds = clock.map(|clock| seconds_ahead(clock, middle));
        Ok(Self { serving, node: Some(node), memory, clock_ahead_seconds })
    }

    /// Returns the state: serving, starting, `store_away`, stopping.
    pub(super) fn state(&self) -> &str {
        match &self.node {
            Some(node) if !node.state.is_empty() => &node.state,
            _ if self.serving => "serving",
            Some(_) => "not_serving",
            None => "starting",
        }
    }

    /// Returns the memory hit rate, 0 to 1; `None` before the first read.
    pub(super) fn hit_rate(&self) -> Option<f64> {
        let hits = self.sum(|one| one.hits);
        share(hits, hits + self.sum(|one| one.misses))
    }

    /// Returns the Redis hit rate, 0 to 1; `None` before the first key.
    pub(super) fn redis_hit_rate(&self) -> Option<f64> {
        let hits = self.sum(|one| one.redis_hits);
        share(hits, hits + self.sum(|one| one.redis_misses))
    }

    /// Returns a figure's sum over all namespaces.
    pub(super) fn sum(&self, of: fn(&NamespaceStats) -> i64) -> i64 {
        self.memory.iter().map(of).sum()
    }

    /// Returns the weight limit for all namespaces together, which each namespace reports.
    pub(super) fn memory_limit(&self) -> i64 {
        self.memory.iter().map(|one| one.weight_limit_bytes).max().unwrap_or_default()
    }

    /// Returns the 99th percentile latency for user and group calls, since the start; `None` before the first
    /// call.
    pub(super) fn p99(&self) -> Option<Duration> {
        let p99 = self.node.as_ref()?.calls.as_ref()?.p99?;
        Duration::try_from(p99).ok()
    }

    /// Returns information about a cluster node; `None` in single-node mode, and while it starts.
    pub(super) fn cluster_node(&self) -> Option<&GetNodeResponse> {
        self.node.as_ref().filter(|node| !node.redis.is_empty())
    }

    /// Returns the time since the last proof that its memory misses no change; `None` before the first proof,
    /// and in single-node mode.
    pub(super) fn since_proof(&self) -> Option<Duration> {
        Duration::try_from(self.cluster_node()?.since_proof?).ok()
    }

    /// Returns the node's uptime.
    pub(super) fn uptime(&self) -> Option<Duration> {
        uptime(self.node.as_ref()?)
    }
}

/// Returns a node's uptime by its own clock.
pub(super) fn uptime(node: &GetNodeResponse) -> Option<Duration> {
    let (time, start) = (node.time?, node.start_time?);
    SystemTime::try_from(time).ok()?.duration_since(SystemTime::try_from(start).ok()?).ok()
}

/// Returns the ratio to `all`; `None` if `all` is 0.
#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
pub(super) fn share(part: i64, all: i64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

fn seconds_ahead(clock: SystemTime, ours: SystemTime) -> f64 {
    match clock.duration_since(ours) {
        Ok(ahead) => ahead.as_secs_f64(),
        Err(behind) => -behind.duration().as_secs_f64(),
    }
}
