//! Presence in a node's background: it checks gateways, receives events, sweeps, and notifies groups about
//! joins.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use kith_presence::{Change, Claim, ClaimOutcome, Instance, PresenceError, UserState};
use kith_store::UserId;
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep},
};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    hub::PresenceHub, membership_listener::MembershipUpdate, node_sessions::NodeSessions, sessions::Sessions,
    sweep::Sweep,
};
use crate::{
    error::{Error, Reason},
    metric::{self, Metric},
    write::{
        rounds::{FirstFailure, every},
        tasks::BackgroundJob,
    },
};

/// Pause before the next attempt to subscribe.
const RESUBSCRIBE_PAUSE: Duration = Duration::from_millis(500);
/// After this many checks, ended sessions are forgotten.
const FORGET_EVERY: u32 = 60;
/// Sessions that are restored in one step.
const RESTORED_AT_ONCE: usize = 500;
/// Attempts to notify a group about a join or leave: no other event would do it. While Redis or the store is
/// away there are more, for about half an hour.
const MEMBERSHIP_UPDATE_TRIES: u32 = 5;
const MEMBERSHIP_UPDATE_TRIES_AWAY: u32 = 60;
/// The longest pause between two attempts.
const MEMBERSHIP_UPDATE_PAUSE: Duration = Duration::from_secs(30);
/// Joins and leaves that are processed at the same time, and that wait for their next attempt: groups whose
/// Redis node is away do not delay others.
const MEMBERSHIP_UPDATES_AT_ONCE: usize = 32;
const MEMBERSHIP_UPDATES_RETRIED: usize = 10_000;
/// Unless its gateway renews it, a restored session lasts for this fraction of the usual time: it may have
/// been closed on another node.
const RESTORED_TTL_PART: u32 = 5;

/// Its counters, without labels.
const COUNTED: [Metric; 5] = [
    metric::PRESENCE_EVENTS,
    metric::PRESENCE_FAN_OUTS,
    metric::PRESENCE_FAN_OUTS_RESUMED,
    metric::PRESENCE_SWEPT,
    metric::PRESENCE_MOVES_DROPPED,
];

/// Runs the presence tasks in the background, until it is dropped.
#[derive(Debug)]
pub struct Background {
    parts: BackgroundParts,
    job: BackgroundJob,
}

#[derive(Clone, Debug)]
pub(super) struct BackgroundParts {
    pub(super) sessions: Sessions,
    pub(super) node_sessions: NodeSessions,
    pub(super) hub: Arc<PresenceHub>,
    pub(super) look_every: Duration,
    pub(super) sweep_every: Duration,
}

impl Background {
    /// Creates it without starting it.
    pub(super) fn new(
        parts: BackgroundParts,
        sweep: Sweep,
        updates: mpsc::Receiver<MembershipUpdate>,
    ) -> Self {
        metric::count_from_zero(metric::PRESENCE_CHANGES, &["open", "renew", "close"]);
        for counter in COUNTED {
            metric::count_from_zero(counter, &[]);
        }
        let job = BackgroundJob::new([
            parts.clone().check_gateways().boxed(),
            parts.clone().receive_events().boxed(),
            parts.clone().sweep(sweep).boxed(),
            parts.node_sessions.clone().send_heartbeats().boxed(),
            parts.clone().notify_membership_updates(updates).boxed(),
        ]);
        Self { parts, job }
    }

    /// Starts it, once.
    pub fn start(&self) {
        self.job.start();
    }

    /// Ends all. Other nodes continue its work, except for users who left groups just now: these are found
    /// when the groups' online members are listed.
    pub async fn stop(&self) {
        self.parts.node_sessions.end().await;
        self.job.stop().await;
    }

    /// The sessions for users who receive from this node.
    #[must_use]
    pub fn node_sessions(&self) -> NodeSessions {
        self.parts.node_sessions.clone()
    }

    /// Brings the gauges up to date.
    pub fn export_metrics(&self) {
        let gauge = |metric: Metric, count| metrics::gauge!(metric.name).set(metric::as_f64(count));
        let BackgroundParts { sessions, hub, .. } = &self.parts;
        gauge(metric::PRESENCE_GATEWAYS, sessions.gateways.count());
        gauge(metric::PRESENCE_GATEWAYS_DEAD, sessions.gateways.count_dead());
        gauge(metric::PRESENCE_SESSIONS_HELD, sessions.recovery.count());
        gauge(metric::PRESENCE_WATCHERS, hub.count());
    }
}

impl BackgroundParts {
    /// Reads the live gateways, and whether presence was lost.
    async fn check_gateways(self) {
        let (mut was_settled, mut checks) = (true, 0_u32);
        every(self.look_every, async move || {
            let begun = Instant::now();
            // While it cannot be read, the last state is used.
            let is_read = self.sessions.refresh_gateways().await.is_ok();
            if self.sessions.gateways.was_lost() {
                Box::pin(self.restore_sessions()).await;
                self.hub.read_again();
            } else if is_read {
                self.sessions.recovery.forget_ended(begun);
            }
            let is_settled = self.sessions.is_settled();
            if is_settled && !was_settled {
                self.hub.read_again();
            }
            was_settled = is_settled;
            checks = checks.wrapping_add(1);
            if checks.is_multiple_of(FORGET_EVERY) {
                self.sessions.recovery.forget_expired();
            }
        })
        .await;
    }

    /// Restores the sessions that this node knows, after a loss. Gateways that send no heartbeat die again,
    /// and are swept.
    async fn restore_sessions(&self) {
        let mut changes =
            self.sessions.recovery.changes_to_restore(self.sessions.rules.session_ttl / RESTORED_TTL_PART);
        tracing::warn!(sessions = changes.len(), "presence was lost; its sessions are restored");
        let mut gateways: Vec<Instance> = changes.iter().map(|change| change.instance.clone()).collect();
        gateways.sort_unstable();
        gateways.dedup();
        let mut claimed = HashSet::new();
        for instance in gateways {
            let (gateway, offered) = (instance.gateway.clone(), Some(instance.incarnation));
            let claim = Claim { gateway, offered, lasts: self.sessions.rules.gateway_ttl };
            // Its own heartbeat does the same. No node would sweep a gateway that could not be claimed.
            if let Ok(ClaimOutcome::Held(_)) = self.sessions.stores.sessions.claim(&claim).await {
                claimed.insert(instance);
            }
        }
        changes.retain(|change| claimed.contains(&change.instance));
        let mut states = Vec::with_capacity(changes.len());
        for changes in changes.chunks(RESTORED_AT_ONCE) {
            states.extend(self.restore(changes).await);
        }
        // First all are online again, then their groups are notified, which takes longer. Users who are left
        // out are found by their heartbeats.
        let fan_out = self.sessions.fan_out.clone();
        tokio::spawn(async move { drop(Box::pin(fan_out.notify_groups_of_all(states)).await) });
    }

    async fn restore(&self, changes: &[Change]) -> Vec<(UserId, UserState)> {
        let changed = self.sessions.stores.sessions.change(changes).await;
        if changed.contains(&Err(PresenceError::Unavailable)) {
            tracing::warn!("not all sessions could be restored; gateways learn this when they renew them");
        }
        let states = changes.iter().zip(changed);
        states.filter_map(|(change, changed)| Some((change.user, changed.ok()?.state))).collect()
    }

    /// Receives the changes, for all watchers on this node.
    async fn receive_events(self) {
        let mut failures = FirstFailure::default();
        loop {
            let subscribed = self.sessions.stores.feed.subscribe().await;
            if let Some(error) = failures.of(&subscribed) {
                tracing::warn!(%error, "changes of presence are not received; it is tried again");
            }
            if let Ok(mut events) = subscribed {
                self.hub.set_live(true);
                while let Some(event) = events.next().await {
                    metrics::counter!(metric::PRESENCE_EVENTS.name).increment(1);
                    self.sessions.recovery.note_ended(&event);
                    self.hub.notify(&event);
                }
                self.hub.set_live(false);
            }
            sleep(random(RESUBSCRIBE_PAUSE)).await;
        }
    }

    async fn sweep(self, mut sweep: Sweep) {
        let mut failures = FirstFailure::default();
        every(self.sweep_every, async move || {
            if let Some(error) = failures.of(&Box::pin(sweep.round()).await) {
                tracing::warn!(%error, "not all sessions of dead gateways are ended; it is tried again");
            }
        })
        .await;
    }

    /// Notifies groups about users who joined or left them while they are online.
    async fn notify_membership_updates(self, updates: mpsc::Receiver<MembershipUpdate>) {
        let fan_out = &self.sessions.fan_out;
        let permits = &Semaphore::new(MEMBERSHIP_UPDATES_AT_ONCE);
        let each = |MembershipUpdate { group, users, done }: MembershipUpdate| async move {
            let users = &users;
            let notified = retried(|| async move {
                let _permit = permits.acquire().await;
                Box::pin(fan_out.update_membership(group, users)).await
            });
            if let Err(error) = notified.await {
                tracing::warn!(%error, "a group was not notified who joined or left it while online");
                metrics::counter!(metric::PRESENCE_MOVES_DROPPED.name).increment(1);
            }
            drop(done);
        };
        ReceiverStream::new(updates).for_each_concurrent(MEMBERSHIP_UPDATES_RETRIED, each).await;
    }
}

/// Repeats a step until it succeeds, with growing pauses; while something is away, for longer.
///
/// # Errors
/// The last error.
async fn retried<F: Future<Output = Result<(), Error>>>(mut step: impl FnMut() -> F) -> Result<(), Error> {
    let (mut tries, mut pause) = (0, RESUBSCRIBE_PAUSE);
    loop {
        let Err(error) = step().await else { return Ok(()) };
        tries += 1;
        let is_away = error.reason() == Reason::StoreUnavailable;
        if tries >= if is_away { MEMBERSHIP_UPDATE_TRIES_AWAY } else { MEMBERSHIP_UPDATE_TRIES } {
            return Err(error);
        }
        sleep(random(pause)).await;
        pause = (pause * 2).min(MEMBERSHIP_UPDATE_PAUSE);
    }
}

/// About this long: at random, so that not all nodes come at the same time.
fn random(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.0))
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn leave_outlasts_an_outage_and_gives_up() {
        let (begun, away) = (Instant::now(), Duration::from_secs(300));
        let unavailable = || Err(Error::presence(PresenceError::Unavailable));
        let step = || ready(if begun.elapsed() < away { unavailable() } else { Ok(()) });
        retried(step).await.unwrap();
        let mut tries = 0;
        let wrong = || {
            tries += 1;
            ready(Err(Error::presence(PresenceError::Unexpected)))
        };
        retried(wrong).await.unwrap_err();
        assert_eq!(tries, MEMBERSHIP_UPDATE_TRIES);
        assert_eq!(retried(|| ready(unavailable())).await.unwrap_err().reason(), Reason::StoreUnavailable);
    }
}
