//! The confirmations of other nodes, for which a strict write waits before it is acknowledged
//! (docs/operate/coherence.md, "Strict records").

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    Node,
    api::wait_until::until,
    remote::shared::{ChangeAnswer, Confirmation, PeerPosition},
    testing::rules,
};

/// Since when this node follows its epoch, and which entries the other nodes have confirmed to it.
#[derive(Debug)]
pub struct PeerConfirmations {
    /// Maximum time for which a silent node may still serve its memory, counted from its last probe.
    silence_max: Duration,
    state: Mutex<ConfirmationState>,
    /// Wakes tasks that wait for a confirmation, in the order of waiting.
    received: Notify,
}

#[derive(Debug, Default)]
struct ConfirmationState {
    followed: Option<FollowedEpoch>,
    confirmed: HashMap<u64, u64>,
}

/// An epoch that a node follows.
#[derive(Clone, Debug)]
struct FollowedEpoch {
    number: u64,
    server: String,
    since: Instant,
}

impl PeerConfirmations {
    /// Creates it for nodes that trust their memory for this long after a probe. Tolerates clocks whose
    /// speeds differ by a fiftieth.
    #[must_use]
    pub fn new(trust: Duration) -> Self {
        let silence_max = trust + trust / 50 + Duration::from_millis(20);
        Self { silence_max, state: Mutex::default(), received: Notify::new() }
    }

    /// This node follows the epoch of this server from now on. Confirmations in an earlier epoch no longer
    /// count.
    pub fn start_epoch(&self, epoch: u64, server: &str) {
        let followed = FollowedEpoch { number: epoch, server: server.to_owned(), since: Instant::now() };
        let mut state = self.state.lock();
        state.confirmed.clear();
        state.followed = Some(followed);
    }

    /// The epoch in which this node trusts its memory, and the server of the epoch. `None`: it does not trust
    /// its memory.
    #[must_use]
    pub fn trusted(&self, node: &Node) -> Option<(u64, String)> {
        let state = self.state.lock();
        let followed = state.followed.as_ref().filter(|followed| node.epoch() == followed.number)?;
        node.trusted().then(|| (followed.number, followed.server.clone()))
    }

    /// Returns when no node trusts its memory in an epoch before this epoch, which is the present one. Takes
    /// at most as long as nodes trust their memory without a probe.
    pub async fn earlier_epochs_ended(&self, epoch: u64) {
        sleep_until(self.earlier_epochs_end(epoch, Instant::now())).await;
    }

    /// Records the confirmation of a node.
    pub fn record(&self, confirmed: Confirmation) {
        let mut state = self.state.lock();
        let number = state.confirmed.entry(confirmed.node).or_default();
        *number = confirmed.number.max(*number);
        drop(state);
        self.received.notify_waiters();
    }

    /// Returns when no node but `me` can still serve the replaced value from memory: each has confirmed the
    /// change, or has been silent for longer than it may trust its memory. Takes at most that long.
    pub(crate) async fn confirmed_by_all(&self, me: u64, epoch: u64, changed: &ChangeAnswer) {
        if !rules::strict_confirmed() {
            return;
        }
        let answered = Instant::now();
        for peer in changed.peers.iter().filter(|peer| peer.node != me) {
            self.confirmed_by(peer, changed.number, answered).await;
        }
        // Nodes that still follow an earlier epoch are not in this epoch's registry.
        if rules::strict_after_epoch() {
            sleep_until(self.earlier_epochs_end(epoch, answered)).await;
        }
    }

    async fn confirmed_by(&self, peer: &PeerPosition, number: u64, answered: Instant) {
        if peer.applied >= number {
            return;
        }
        let deadline = answered + self.silence_max.saturating_sub(peer.silent);
        let confirms = || self.state.lock().confirmed.get(&peer.node).is_some_and(|known| *known >= number);
        // The deadline covers a node that never confirms.
        drop(timeout_at(deadline, until(&self.received, confirms)).await);
    }

    /// When no node of an earlier epoch trusts its memory any more.
    fn earlier_epochs_end(&self, epoch: u64, now: Instant) -> Instant {
        match &self.state.lock().followed {
            Some(followed) if followed.number == epoch => followed.since + self.silence_max,
            Some(_) | None => now + self.silence_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUST: Duration = Duration::from_millis(1_500);

    fn peer(node: u64, applied: u64, silent: u64) -> PeerPosition {
        PeerPosition { node, applied, silent: Duration::from_millis(silent) }
    }

    async fn wait_time(confirmations: &PeerConfirmations, peers: Vec<PeerPosition>) -> Duration {
        let began = Instant::now();
        confirmations.confirmed_by_all(1, 5, &ChangeAnswer { number: 10, epoch: 5, peers }).await;
        began.elapsed()
    }

    async fn after_earlier_epochs() -> PeerConfirmations {
        let confirmations = PeerConfirmations::new(TRUST);
        confirmations.start_epoch(5, "one");
        tokio::time::sleep(TRUST * 2).await;
        confirmations
    }

    #[tokio::test(start_paused = true)]
    async fn peer_that_has_the_change_is_not_awaited() {
        let confirmations = after_earlier_epochs().await;
        confirmations.record(Confirmation { node: 2, number: 10 });
        assert_eq!(
            wait_time(&confirmations, vec![peer(1, 0, 0), peer(2, 3, 0), peer(3, 10, 0)]).await,
            Duration::ZERO
        );
    }

    #[tokio::test(start_paused = true)]
    async fn silent_node_is_awaited_until_trust_ends() {
        let confirmations = after_earlier_epochs().await;
        let waited = wait_time(&confirmations, vec![peer(2, 9, 500)]).await;
        assert!(waited >= Duration::from_secs(1) && waited < TRUST, "{waited:?}");
        assert_eq!(wait_time(&confirmations, vec![peer(2, 9, 1_600)]).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn write_after_new_epoch_waits_full_deadline() {
        let confirmations = after_earlier_epochs().await;
        confirmations.start_epoch(5, "one");
        assert!(wait_time(&confirmations, Vec::new()).await >= TRUST);
        let other = PeerConfirmations::new(TRUST);
        other.start_epoch(4, "one");
        tokio::time::sleep(TRUST * 2).await;
        assert!(
            wait_time(&other, Vec::new()).await >= TRUST,
            "the epoch of the change is newer than its own"
        );
    }
}
