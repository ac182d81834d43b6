//! Gateways, in memory.

use std::time::Duration;

use kith_store::UserId;
use tokio::time::Instant;

use super::State;
use crate::{
    Claim, ClaimOutcome, GatewayState, Gateways, Incarnation, Instance, PresenceError, PresenceLimits,
};

/// The gateway that owns an id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registered(Incarnation);

impl State {
    pub(super) fn claim(
        &mut self,
        claim: &Claim,
        limits: &PresenceLimits,
    ) -> Result<ClaimOutcome, PresenceError> {
        let now = Instant::now();
        let of = |incarnation| Instance { gateway: claim.gateway.clone(), incarnation };
        let held = self.registered.get(&claim.gateway).map(|Registered(held)| *held);
        let incarnation = match (held, claim.offered) {
            (None, offered) => offered.unwrap_or_else(Incarnation::random),
            (Some(held), Some(offered)) if held == offered => held,
            (Some(held), None) if self.deadlines.get(&of(held)).is_none_or(|deadline| *deadline <= now) => {
                Incarnation::random()
            }
            (Some(_), _) => return Ok(ClaimOutcome::Denied),
        };
        let most = usize::try_from(limits.gateways_max).unwrap_or(usize::MAX);
        if !self.deadlines.contains_key(&of(incarnation)) && self.deadlines.len() >= most {
            return Err(PresenceError::TooManyGateways);
        }
        self.registered.insert(claim.gateway.clone(), Registered(incarnation));
        self.deadlines.insert(of(incarnation), now + claim.lasts);
        Ok(ClaimOutcome::Held(incarnation))
    }

    pub(super) fn gateways(&self) -> Gateways {
        let now = Instant::now();
        let state = |(instance, deadline): (&Instance, &Instant)| GatewayState {
            instance: instance.clone(),
            left: deadline.saturating_duration_since(now),
        };
        Gateways { epoch: self.epoch, age: self.age(), all: self.deadlines.iter().map(state).collect() }
    }

    pub(super) fn forget(&mut self, instance: &Instance) {
        if self.deadlines.get(instance).is_none_or(|deadline| *deadline > Instant::now()) {
            return;
        }
        self.deadlines.remove(instance);
        self.due.remove(instance);
        let held = self.registered.get(&instance.gateway);
        if held.is_some_and(|Registered(held)| *held == instance.incarnation) {
            self.registered.remove(&instance.gateway);
        }
    }

    pub(super) fn users_to_check(&self, instance: &Instance, limit: usize, all: bool) -> Vec<UserId> {
        let now = Instant::now();
        let Some(due) = self.due.get(instance) else { return Vec::new() };
        let wanted = due.iter().filter(|(_, at)| all || **at <= now);
        wanted.map(|(user, _)| *user).take(limit).collect()
    }

    pub(super) fn mark_checked(
        &mut self,
        instance: &Instance,
        users: &[(UserId, Option<Duration>)],
        all: bool,
    ) {
        let now = Instant::now();
        let Some(due) = self.due.get_mut(instance) else { return };
        for (user, left) in users {
            if !due.get(user).is_some_and(|at| all || *at <= now) {
                continue;
            }
            match left {
                Some(left) => due.insert(*user, now + *left),
                None => due.remove(user),
            };
        }
        if due.is_empty() {
            self.due.remove(instance);
        }
    }

    /// Schedules a user's check, at this time or a known earlier one; `replace`: not before this time.
    pub(super) fn schedule_check(&mut self, instance: &Instance, user: UserId, at: Instant, replace: bool) {
        let due = self.due.entry(instance.clone()).or_default();
        let known = due.entry(user).or_insert(at);
        *known = if replace { at } else { at.min(*known) };
    }
}
