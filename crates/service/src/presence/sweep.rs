//! Ends dead gateways' sessions, and expired sessions.

use std::{sync::Arc, time::Duration};

use kith_presence::{Change, ChangeOutcome, GatewayState, Instance, PresenceStore, SessionOp};
use kith_store::{Coordination, UserId};

use super::fan_out::FanOut;
use crate::{error::Error, metric, write::lease::Lease};

/// How many users are checked in one round, on a gateway and on all gateways: watchers are notified about
/// them all before the first user's groups are, which takes longer.
const USERS: usize = 10_000;
const USERS_OF_ALL: usize = 50_000;
/// Users that are changed together, and whose groups are notified before that is noted.
const PAGE: usize = 200;
/// The lease name for sweeping.
const LEASE: &str = "presence_sweep";

/// Sweeps gateways. If the node dies in between, another one continues.
#[derive(Debug)]
pub(super) struct Sweep {
    store: Store,
    fan_out: FanOut,
    /// The lease for sweeping.
    lease: Lease,
}

#[derive(Debug)]
struct Store(Arc<dyn PresenceStore>);

/// Users that were processed, with the result.
type SweptUsers = Vec<(UserId, ChangeOutcome)>;

impl Sweep {
    /// `every`: the time between rounds.
    pub(super) fn new(
        fan_out: FanOut,
        coordination: &Arc<dyn Coordination>,
        node_id: Option<&str>,
        every: Duration,
    ) -> Self {
        let store = Store(Arc::clone(&fan_out.stores.sessions));
        // Short: after a node died, no node sweeps for this time.
        let lease = Lease::new(coordination, LEASE, node_id, every * 5 / 2);
        Self { store, fan_out, lease }
    }

    /// One round, if this node has the lease.
    ///
    /// # Errors
    /// UNAVAILABLE.
    pub(super) async fn round(&mut self) -> Result<(), Error> {
        // If the lease cannot be read, all nodes sweep.
        if !self.lease.is_held().await.unwrap_or(true) {
            return Ok(());
        }
        let (swept, mut notified) = self.store.sweep_gateways().await;
        for (state, swept) in swept {
            // A gateway whose groups cannot be notified does not delay the others.
            notified = notified.and(self.notify_groups(&state, swept).await);
        }
        notified
    }

    /// Notifies the groups, and records it: a user without such a record is checked again.
    async fn notify_groups(
        &self,
        GatewayState { instance, left }: &GatewayState,
        swept: SweptUsers,
    ) -> Result<(), Error> {
        let mut all_notified = Ok(());
        for swept in swept.chunks(PAGE) {
            let states = swept.iter().map(|(user, changed)| (*user, changed.state.clone())).collect();
            all_notified = all_notified.and(self.fan_out.notify_groups_of_all(states).await);
            let users = swept.iter().map(|(user, _)| *user).collect();
            // In between, the gateway may have returned and opened sessions again.
            let now = self.store.change(instance, users, &SessionOp::Expire).await?;
            let noted = now.iter().filter(|(_, changed)| !changed.state.needs_fan_out());
            let noted: Vec<_> = noted.map(|(user, changed)| (*user, changed.left)).collect();
            let settled = self.store.0.mark_checked(instance, &noted, left.is_zero());
            settled.await.map_err(Error::presence)?;
        }
        all_notified
    }
}

impl Store {
    /// Ends expired sessions at all gateways, and forgets dead gateways that have no user left. A gateway
    /// that cannot be swept does not delay the others: its error comes with their users.
    async fn sweep_gateways(&self) -> (Vec<(GatewayState, SweptUsers)>, Result<(), Error>) {
        let mut all = match self.0.gateways().await {
            Ok(gateways) => gateways.all,
            Err(error) => return (Vec::new(), Err(Error::presence(error))),
        };
        // Dead gateways first: their users wait.
        all.sort_by_key(|state| state.left);
        let (mut swept, mut users, mut failed) = (Vec::new(), 0, Ok(()));
        for state in all {
            match self.sweep_gateway(&state).await {
                Ok(users_of) => {
                    users += users_of.len();
                    swept.push((state, users_of));
                }
                Err(error) => failed = Err(error),
            }
            if users >= USERS_OF_ALL {
                break;
            }
        }
        (swept, failed)
    }

    async fn sweep_gateway(
        &self,
        GatewayState { instance, left }: &GatewayState,
    ) -> Result<SweptUsers, Error> {
        let is_dead = left.is_zero();
        let users = self.0.users_to_check(instance, USERS, is_dead).await.map_err(Error::presence)?;
        if users.is_empty() && is_dead {
            self.0.forget(instance).await.map_err(Error::presence)?;
        }
        let op = if is_dead { SessionOp::End } else { SessionOp::Expire };
        let swept = self.change(instance, users, &op).await?;
        for (_, changed) in &swept {
            if changed.published {
                metrics::counter!(metric::PRESENCE_SWEPT.name).increment(1);
            } else if changed.state.needs_fan_out() {
                metrics::counter!(metric::PRESENCE_FAN_OUTS_RESUMED.name).increment(1);
            }
        }
        Ok(swept)
    }

    /// A few at a time: the wait for each answer is limited. Users who cannot be changed are left out, and
    /// processed later.
    ///
    /// # Errors
    /// UNAVAILABLE if none can be changed.
    async fn change(
        &self,
        instance: &Instance,
        users: Vec<UserId>,
        op: &SessionOp,
    ) -> Result<SweptUsers, Error> {
        let change = |user: &UserId| Change { user: *user, instance: instance.clone(), op: op.clone() };
        let (mut swept, mut failed) = (SweptUsers::with_capacity(users.len()), None);
        for some in users.chunks(PAGE) {
            let changes: Vec<Change> = some.iter().map(change).collect();
            for (user, changed) in some.iter().zip(self.0.change(&changes).await) {
                match changed {
                    Ok(changed) => swept.push((*user, changed)),
                    Err(error) => failed = Some(error),
                }
            }
        }
        match failed.filter(|_| swept.is_empty()) {
            Some(error) => Err(Error::presence(error)),
            None => Ok(swept),
        }
    }
}

#[cfg(test)]
mod tests {
    use kith_presence::{Claim, ClaimOutcome, MemoryPresence};

    use super::*;
    use crate::presence::{PresenceConfig, build::limits};

    #[tokio::test(start_paused = true)]
    async fn watchers_are_notified_before_groups() {
        let presences = MemoryPresence::new(limits(&PresenceConfig::default())).presences();
        let (mut events, mut instances) = (presences.feed.subscribe().await.unwrap(), Vec::new());
        for gateway in ["a", "b"] {
            let lasts = Duration::from_secs(20);
            let claim = Claim { gateway: gateway.parse().unwrap(), offered: None, lasts };
            let ClaimOutcome::Held(incarnation) = presences.sessions.claim(&claim).await.unwrap() else {
                panic!("it is free")
            };
            instances.push(Instance { gateway: claim.gateway, incarnation });
        }
        let users: Vec<UserId> = (1..=900).map(|id| UserId::new(id).unwrap()).collect();
        for user in &users {
            let instance = instances[usize::from(user.get() % 2 == 0)].clone();
            let op = SessionOp::Open("phone".parse().unwrap(), Duration::from_secs(600));
            let opened = presences.sessions.change(&[Change { user: *user, instance, op }]).await;
            assert!(opened[0].as_ref().unwrap().published);
            events.next().await.unwrap();
        }
        tokio::time::advance(Duration::from_secs(21)).await;
        let store = Store(presences.sessions);
        let swept = store.sweep_gateways().await.0;
        assert_eq!(swept.iter().map(|(_, swept)| swept.len()).sum::<usize>(), users.len());
        for _ in &users {
            assert!(events.next().await.unwrap().gateways.is_empty());
        }
        assert!(swept.iter().flat_map(|(_, swept)| swept).all(|(_, changed)| changed.state.needs_fan_out()));
        assert_eq!(store.sweep_gateways().await.0.len(), 2, "none is forgotten whose users are not noted");
    }
}
