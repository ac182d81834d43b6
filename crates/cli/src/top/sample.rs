//! Converts a node's message into rates.

use std::time::Duration;

use kith_proto::admin::v1::{CallFigures, GetNodeResponse, MethodFigures, NamespaceStats, WatchNodeResponse};
use serde::Serialize;

use super::super::facts::{share, uptime};

/// A node's state and its activity in an interval. Fields that do not apply to the node, or were not
/// requested, are absent.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Sample {
    pub(super) state: String,
    pub(super) version: String,
    pub(super) trusted: bool,
    pub(super) epoch: i64,
    pub(super) applied: i64,
    pub(super) store_answers: bool,
    pub(super) uptime_seconds: Option<u64>,
    pub(super) calls_in_flight: i64,
    pub(super) mutations_in_flight: i64,
    /// Absent for a node that shares nothing with others; so are the next six.
    pub(super) redis: Option<String>,
    pub(super) redis_breaker: Option<String>,
    pub(super) nodes: Option<i64>,
    pub(super) changes_waiting: Option<i64>,
    pub(super) entries_behind: Option<i64>,
    /// The time since the last proof; absent before the first proof.
    pub(super) since_proof_seconds: Option<f64>,
    pub(super) redis_hit_rate: Option<f64>,
    /// The time between two samples. The fields below refer to this time.
    pub(super) interval_seconds: f64,
    #[serde(flatten)]
    pub(super) calls: Rates,
    pub(super) memory_hit_rate: Option<f64>,
    pub(super) loads_per_second: f64,
    pub(super) invalidations_per_second: f64,
    pub(super) repairs: i64,
    pub(super) calls_shed: i64,
    pub(super) mutations_shed: i64,
    pub(super) methods: Vec<Method>,
    pub(super) namespaces: Vec<Namespace>,
}

/// The calls that ended in an interval.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Rates {
    pub(super) calls_per_second: f64,
    pub(super) errors_per_second: f64,
    /// The errors that are faults: the node did not finish the call.
    pub(super) faults_per_second: f64,
    /// The median; absent if there were no calls.
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

/// One method's figures.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Method {
    pub(super) service: String,
    pub(super) method: String,
    #[serde(flatten)]
    pub(super) calls: Rates,
}

/// One namespace's content, and its activity in an interval.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Namespace {
    pub(super) namespace: String,
    pub(super) entries: i64,
    pub(super) weight_bytes: i64,
    pub(super) memory_hit_rate: Option<f64>,
    pub(super) redis_hit_rate: Option<f64>,
    pub(super) store_reads_per_second: f64,
    pub(super) loads_per_second: f64,
    pub(super) load_errors_per_second: f64,
    pub(super) invalidations_per_second: f64,
    pub(super) resync_stale: i64,
}

impl Sample {
    /// Converts a node's message.
    pub(super) fn of(message: &WatchNodeResponse) -> Self {
        let node = message.node.clone().unwrap_or_default();
        let interval =
            message.interval.and_then(|interval| Duration::try_from(interval).ok()).unwrap_or_default();
        let sum = |of: fn(&NamespaceStats) -> i64| message.namespaces.iter().map(of).sum::<i64>();
        let sample = Self {
            interval_seconds: interval.as_secs_f64(),
            calls: message.calls.as_ref().map(|calls| Rates::of(calls, interval)).unwrap_or_default(),
            memory_hit_rate: rate_of(sum(|one| one.hits), sum(|one| one.misses)),
            redis_hit_rate: rate_of(sum(|one| one.redis_hits), sum(|one| one.redis_misses)),
            loads_per_second: per_second(sum(|one| one.loads), interval),
            invalidations_per_second: per_second(sum(|one| one.invalidations_heard), interval),
            repairs: message.repairs,
            calls_shed: message.calls_shed,
            mutations_shed: message.mutations_shed,
            methods: message.methods.iter().map(|one| Method::of(one, interval)).collect(),
            namespaces: message.namespaces.iter().map(|one| Namespace::of(one, interval)).collect(),
            ..Self::default()
        };
        sample.with(&node)
    }

    fn with(self, node: &GetNodeResponse) -> Self {
        let shares = !node.redis.is_empty();
        let since_proof = node.since_proof.and_then(|since| Duration::try_from(since).ok());
        Self {
            state: node.state.clone(),
            version: node.version.clone(),
            trusted: node.trusted,
            epoch: node.epoch,
            applied: node.applied,
            store_answers: node.store_answers,
            uptime_seconds: uptime(node).map(|uptime| uptime.as_secs()),
            calls_in_flight: node.calls_in_flight,
            mutations_in_flight: node.mutations_in_flight,
            redis: shares.then(|| node.redis.clone()),
            redis_breaker: shares.then(|| node.redis_breaker.clone()),
            nodes: shares.then_some(node.nodes),
            changes_waiting: shares.then_some(node.changes_waiting),
            entries_behind: shares.then_some(node.entries_behind),
            since_proof_seconds: since_proof.map(|since| since.as_secs_f64()),
            ..self
        }
    }
}

impl Rates {
    fn of(calls: &CallFigures, interval: Duration) -> Self {
        let ms = |time: Option<prost_types::Duration>| {
            time.and_then(|time| Duration::try_from(time).ok()).map(|time| time.as_secs_f64() * 1_000.0)
        };
        Self {
            calls_per_second: per_second(calls.calls, interval),
            errors_per_second: per_second(calls.errors, interval),
            faults_per_second: per_second(calls.faults, interval),
            p50_ms: ms(calls.p50),
            p99_ms: ms(calls.p99),
        }
    }
}

impl Method {
    fn of(message: &MethodFigures, interval: Duration) -> Self {
        let calls = message.figures.as_ref().map(|figures| Rates::of(figures, interval)).unwrap_or_default();
        Self { service: message.service.clone(), method: message.method.clone(), calls }
    }
}

impl Namespace {
    fn of(message: &NamespaceStats, interval: Duration) -> Self {
        Self {
            namespace: message.namespace.clone(),
            entries: message.entries,
            weight_bytes: message.weight_bytes,
            memory_hit_rate: rate_of(message.hits, message.misses),
            redis_hit_rate: rate_of(message.redis_hits, message.redis_misses),
            store_reads_per_second: per_second(message.store_reads, interval),
            loads_per_second: per_second(message.loads, interval),
            load_errors_per_second: per_second(message.load_errors, interval),
            invalidations_per_second: per_second(message.invalidations_heard, interval),
            resync_stale: message.resync_stale,
        }
    }
}

fn rate_of(hits: i64, misses: i64) -> Option<f64> {
    share(hits, hits + misses)
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn per_second(count: i64, interval: Duration) -> f64 {
    if interval.is_zero() { 0.0 } else { count as f64 / interval.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_an_interval_become_rates() {
        let namespace = |hits, misses, redis_hits, loads| NamespaceStats {
            hits,
            misses,
            redis_hits,
            redis_misses: loads,
            loads,
            ..Default::default()
        };
        let message = WatchNodeResponse {
            interval: Some(prost_types::Duration { seconds: 2, nanos: 0 }),
            calls: Some(CallFigures {
                calls: 100,
                errors: 4,
                faults: 1,
                p99: Some(prost_types::Duration { seconds: 0, nanos: 1_500_000 }),
                ..Default::default()
            }),
            namespaces: vec![namespace(60, 20, 15, 5), namespace(15, 5, 5, 0)],
            ..Default::default()
        };
        let sample = Sample::of(&message);
        let calls = &sample.calls;
        assert_eq!(
            (calls.calls_per_second, calls.errors_per_second, calls.faults_per_second),
            (50.0, 2.0, 0.5)
        );
        assert_eq!((calls.p50_ms, calls.p99_ms), (None, Some(1.5)));
        assert_eq!((sample.memory_hit_rate, sample.redis_hit_rate), (Some(0.75), Some(0.8)));
        assert_eq!((sample.loads_per_second, sample.changes_waiting), (2.5, None));
    }
}
