//! A serving node's reports about Redis, in its log and in `/readyz`.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use kith_cache::{
    Node,
    remote::{FollowerStats, UnpublishedQueue},
};
use tokio::time::{Instant, sleep};

use super::{SharedServer, database_lease};
use crate::health::{HealthCause, Reporter, report_store};

/// How often to check whether the node is trusted.
const EVERY: Duration = Duration::from_millis(250);
/// How long a node may be untrusted before it reports it.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often Redis is examined: its rights and its policy may change at any time.
const EXAMINE_TRUSTED: Duration = Duration::from_secs(5);
const EXAMINE_UNTRUSTED: Duration = Duration::from_secs(1);

/// How long a change feed may not be read to its end before the node reports it. Other nodes' notes last 5 s.
const FEED_UNREAD: Duration = Duration::from_secs(10);
/// How late a change feed's reader may publish changes before the node reports it.
const FEED_LATE: Duration = Duration::from_secs(10);
/// How often to check the change feeds.
const FEED_EVERY: Duration = Duration::from_secs(1);

const AWAY: &str = "Redis does not answer (redis.url): reads come from the store, and changes are published to other nodes later";
const PREFIX_TAKEN: &str = "nodes of another database use the redis.prefix of this node, in the same Redis: give each \
                            database a prefix of its own";

/// Reports whether Redis can be used, until it is dropped. The node serves in any case.
pub(super) async fn watch(server: SharedServer, node: Node, queue: Arc<UnpublishedQueue>, health: Reporter) {
    let remark = |reason| ReadyzRemark::new(health.clone(), reason);
    let (mut away, mut refused) = (remark("redis_away"), remark("redis_refused"));
    let mut unfit = remark("redis_unfit");
    let (mut trusted, mut examined) = ((Instant::now(), SystemTime::now()), None::<Instant>);
    loop {
        sleep(EVERY).await;
        let due = |every| examined.is_none_or(|at| at.elapsed() >= every);
        let is_away = !node.trusted() && trusted.0.elapsed() >= PATIENCE;
        report_store("redis", !is_away);
        if node.trusted() {
            trusted = (Instant::now(), SystemTime::now());
            if away.is_shown() || refused.is_shown() {
                tracing::info!(epoch = node.epoch(), "Redis answers again; the node follows");
                away.set(None, trusted.1);
                refused.set(None, trusted.1);
                examined = None;
            } else if due(EXAMINE_TRUSTED) {
                refused.set(server.refusal().await.map(|refused| refused.line), trusted.1);
                if let Ok(found) = server.findings().await {
                    unfit.set((!found.is_empty()).then(|| found.join("; ")), trusted.1);
                }
                examined = Some(Instant::now());
            }
        } else if trusted.0.elapsed() >= PATIENCE && due(EXAMINE_UNTRUSTED) {
            let why = server.refusal().await.map(|refused| refused.line);
            if !away.is_shown() && !refused.is_shown() {
                tracing::warn!(waiting = queue.len(), "the node does not trust its memory");
            }
            away.set(why.is_none().then(|| AWAY.to_owned()), trusted.1);
            refused.set(why, trusted.1);
            examined = Some(Instant::now());
        }
    }
}

/// Keeps the prefix for this node's database, and reports another database's nodes under it.
pub(super) async fn keep_prefix(server: SharedServer, health: Reporter) {
    let mut taken = ReadyzRemark::new(health, "redis_prefix_taken");
    loop {
        // While Redis is unavailable, other owners are unknown.
        if let Ok(is_taken) = server.prefix_taken().await {
            taken.set(is_taken.then(|| PREFIX_TAKEN.to_owned()), SystemTime::now());
        }
        sleep(database_lease::RENEWED).await;
    }
}

/// Reports when no node reads one of the store's change feeds to its end, and when this node reads a feed too
/// late. Runs until it is dropped.
pub(super) async fn watch_feeds(stats: Arc<FollowerStats>, health: Reporter) {
    let mut unread = ReadyzRemark::new(health.clone(), "feed_unread");
    let (mut late, mut before) = (ReadyzRemark::new(health, "feed_late"), Vec::new());
    loop {
        sleep(FEED_EVERY).await;
        report_feeds(&mut unread, &stats.feeds.since(), FEED_UNREAD, feeds_unread);
        // A new relation reader reads some minutes again, which takes it a moment.
        let lags = stats.feeds.lags();
        let both = lags.iter().zip(&before);
        let twice: Vec<_> = both.map(|((name, lag), (_, before))| (name.clone(), *lag.min(before))).collect();
        report_feeds(&mut late, &twice, FEED_LATE, feeds_late);
        before = lags;
    }
}

/// Shows the remark while one of these feeds has an age of at least `least`.
fn report_feeds(
    remark: &mut ReadyzRemark,
    ages: &[(String, Duration)],
    least: Duration,
    message: fn(&[&str]) -> String,
) {
    let old: Vec<_> = ages.iter().filter(|(_, age)| *age >= least).collect();
    let oldest = old.iter().map(|(_, age)| *age).max().unwrap_or_default();
    let names: Vec<&str> = old.iter().map(|(name, _)| &**name).collect();
    let since = SystemTime::now().checked_sub(oldest).unwrap_or(SystemTime::UNIX_EPOCH);
    remark.set((!names.is_empty()).then(|| message(&names)), since);
}

fn feeds_unread(names: &[&str]) -> String {
    format!(
        "no node reads changes of the store ({}): changes by hand, and those of nodes that died, are not seen; are \
         collections dropped or restored, does the store or Redis not answer?",
        names.join(", ")
    )
}

fn feeds_late(names: &[&str]) -> String {
    format!(
        "this node publishes changes of the store too late ({}): changes by hand, and those of nodes that died, are seen \
         after more than 10 s; is more written than it or Redis can take?",
        names.join(", ")
    )
}

/// One reason in `/readyz`, logged when it appears, changes and disappears.
pub(super) struct ReadyzRemark {
    health: Reporter,
    reason: &'static str,
    shown: Option<String>,
}

impl ReadyzRemark {
    pub(super) const fn new(health: Reporter, reason: &'static str) -> Self {
        Self { health, reason, shown: None }
    }

    const fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// `since`: the time since which the message applies.
    pub(super) fn set(&mut self, message: Option<String>, since: SystemTime) {
        if self.shown == message {
            return;
        }
        if let Some(message) = &message {
            tracing::error!("{message}");
            self.health.remark(HealthCause { reason: self.reason, message: message.clone(), since });
        } else {
            tracing::info!("{} is over", self.reason);
            self.health.end_remark(self.reason);
        }
        self.shown = message;
    }
}
