//! Sessions and gateways in Redis.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use kith_cache::remote::redis::{Reply, ScriptCall};
use kith_store::UserId;

use super::{
    RedisPresence, milliseconds,
    reply::{duration, gateways, left, list, number, parsed, text, users},
};
use crate::{
    Change, ChangeOutcome, Claim, ClaimOutcome, GatewayState, Gateways, Incarnation, Instance, PresenceError,
    PresenceStore, Session, SessionLookup, SessionOp, UserSessions, UserState,
};

/// Users in one call that schedules checks: a script can pass only a limited number of arguments to a
/// command.
const SCHEDULED_AT_ONCE: usize = 1_000;

#[async_trait]
impl PresenceStore for RedisPresence {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, PresenceError> {
        let arguments = vec![
            claim.gateway.to_string(),
            claim.offered.map_or_else(|| "0".to_owned(), |offered| offered.get().to_string()),
            Incarnation::random().get().to_string(),
            milliseconds(claim.lasts),
            self.limits.gateways_max.to_string(),
            epoch(),
        ];
        let call = ScriptCall::new(&self.scripts.claim, self.names.gateways(), arguments);
        let reply = self.one(call).await?;
        if reply == Reply::Nothing {
            return Err(PresenceError::TooManyGateways);
        }
        match text(&reply)? {
            "" => Ok(ClaimOutcome::Denied),
            held => Incarnation::new(parsed(held)?).map(ClaimOutcome::Held).ok_or(PresenceError::Unexpected),
        }
    }

    async fn gateways(&self) -> Result<Gateways, PresenceError> {
        let replies = list(self.one(self.epoch_call(true)).await?)?;
        let [epoch, age, all @ ..] = &replies[..] else { return Err(PresenceError::Unexpected) };
        let all = all.chunks(2).filter_map(|pair| gateway_state(pair).ok()).collect();
        Ok(Gateways { epoch: parsed(text(epoch)?)?, age: duration(age)?, all })
    }

    async fn forget(&self, instance: &Instance) -> Result<(), PresenceError> {
        let Instance { gateway, incarnation } = instance;
        let arguments = vec![instance.to_string(), gateway.to_string(), incarnation.get().to_string()];
        let call = ScriptCall::new(&self.scripts.forget, self.names.gateways(), arguments);
        self.one(call).await.map(drop)
    }

    /// User checks are scheduled first: a death in between only leaves an unnecessary check.
    async fn change(&self, changes: &[Change]) -> Vec<Result<ChangeOutcome, PresenceError>> {
        if let Some(why) = self.each(&self.check_calls(changes)).await.into_iter().find_map(Result::err) {
            return changes.iter().map(|_| Err(why)).collect();
        }
        let calls: Vec<_> = changes.iter().map(|change| self.change_call(change)).collect();
        self.each(&calls).await.into_iter().map(|reply| changed(reply?)).collect()
    }

    /// The epoch is read after them, so that an earlier loss is detected.
    async fn sessions(&self, users: &[UserId]) -> Result<SessionLookup, PresenceError> {
        let call = |user: &UserId| ScriptCall {
            script: &self.scripts.sessions,
            keys: vec![self.names.user(*user)],
            arguments: Vec::new(),
        };
        let calls: Vec<_> = users.iter().map(call).collect();
        let found = self.each(&calls).await;
        let users = found.into_iter().map(|reply| user_sessions(reply?)).collect();
        let epoch = list(self.one(self.epoch_call(false)).await?)?;
        let age = epoch.get(1).ok_or(PresenceError::Unexpected).and_then(duration)?;
        Ok(SessionLookup { age, users })
    }

    async fn record_fan_out(&self, user: UserId, version: i64) -> Result<i64, PresenceError> {
        let (keys, arguments) = (vec![self.names.user(user)], vec![version.to_string()]);
        number(&self.one(ScriptCall::new(&self.scripts.record_fan_out, keys, arguments)).await?)
    }

    async fn users_to_check(
        &self,
        instance: &Instance,
        limit: usize,
        all: bool,
    ) -> Result<Vec<UserId>, PresenceError> {
        let keys = vec![self.names.gateway_users(instance)];
        let arguments = vec![limit.to_string(), u8::from(all).to_string()];
        users(self.one(ScriptCall::new(&self.scripts.users_to_check, keys, arguments)).await?)
    }

    async fn mark_checked(
        &self,
        instance: &Instance,
        users: &[(UserId, Option<Duration>)],
        all: bool,
    ) -> Result<(), PresenceError> {
        let keys = vec![self.names.gateway_users(instance)];
        let mut arguments = vec![u8::from(all).to_string()];
        for (user, left) in users {
            arguments.push(user.to_string());
            arguments.push(left.map_or_else(|| "-1".to_owned(), milliseconds));
        }
        self.one(ScriptCall::new(&self.scripts.mark_checked, keys, arguments)).await.map(drop)
    }
}

impl RedisPresence {
    fn epoch_call(&self, all: bool) -> ScriptCall<'_> {
        let arguments = vec![epoch(), u8::from(all).to_string()];
        ScriptCall::new(&self.scripts.gateways, self.names.gateways(), arguments)
    }

    fn check_calls(&self, changes: &[Change]) -> Vec<ScriptCall<'_>> {
        let mut scheduled: BTreeMap<(&Instance, &str, Duration), Vec<String>> = BTreeMap::new();
        for Change { user, instance, op } in changes {
            let (how, within) = match op {
                SessionOp::Open(_, lasts) | SessionOp::Renew(_, lasts) => ("replace", *lasts),
                SessionOp::Close(_) => ("sooner", self.limits.recheck_after),
                SessionOp::End | SessionOp::Expire => continue,
            };
            scheduled.entry((instance, how, within)).or_default().push(user.to_string());
        }
        let mut calls = Vec::new();
        for ((instance, how, within), users) in scheduled {
            for users in users.chunks(SCHEDULED_AT_ONCE) {
                let mut arguments =
                    vec![how.to_owned(), milliseconds(within), milliseconds(self.limits.kept)];
                arguments.extend_from_slice(users);
                let keys = vec![self.names.gateway_users(instance)];
                calls.push(ScriptCall::new(&self.scripts.schedule_check, keys, arguments));
            }
        }
        calls
    }

    fn change_call(&self, Change { user, instance, op }: &Change) -> ScriptCall<'_> {
        let (op, device, lasts) = match op {
            SessionOp::Open(device, lasts) => ("open", device.as_str(), *lasts),
            SessionOp::Renew(device, lasts) => ("renew", device.as_str(), *lasts),
            SessionOp::Close(device) => ("close", device.as_str(), Duration::ZERO),
            SessionOp::End => ("end", "", Duration::ZERO),
            SessionOp::Expire => ("expire", "", Duration::ZERO),
        };
        let arguments = vec![
            op.to_owned(),
            user.to_string(),
            self.names.channel(*user),
            device.to_owned(),
            instance.to_string(),
            milliseconds(lasts),
            self.limits.sessions_max.to_string(),
            milliseconds(self.limits.kept),
            self.runner.publish_command().to_owned(),
        ];
        ScriptCall::new(&self.scripts.change, vec![self.names.user(*user)], arguments)
    }
}

fn gateway_state(pair: &[Reply]) -> Result<GatewayState, PresenceError> {
    let [instance, left] = pair else { return Err(PresenceError::Unexpected) };
    Ok(GatewayState { instance: parsed(text(instance)?)?, left: duration(left)? })
}

fn epoch() -> String {
    rand::random::<u64>().to_string()
}

fn changed(reply: Reply) -> Result<ChangeOutcome, PresenceError> {
    if reply == Reply::Number(-1) {
        return Err(PresenceError::TooManySessions);
    }
    let replies = list(reply)?;
    let [known, version, fanned_version, now, at_instance, published] = &replies[..] else {
        return Err(PresenceError::Unexpected);
    };
    Ok(ChangeOutcome {
        known: number(known)? > 0,
        state: UserState {
            version: number(version)?,
            fanned_version: number(fanned_version)?,
            gateways: gateways(text(now)?)?,
        },
        left: left(at_instance)?,
        published: number(published)? > 0,
    })
}

fn user_sessions(reply: Reply) -> Result<UserSessions, PresenceError> {
    let replies = list(reply)?;
    let [version, fanned_version, sessions @ ..] = &replies[..] else {
        return Err(PresenceError::Unexpected);
    };
    let sessions = sessions.chunks(2).map(session).collect::<Result<_, _>>()?;
    Ok(UserSessions { version: number(version)?, fanned_version: number(fanned_version)?, sessions })
}

fn session(pair: &[Reply]) -> Result<Session, PresenceError> {
    let [name, left] = pair else { return Err(PresenceError::Unexpected) };
    let (device, instance) = text(name)?.split_once('|').ok_or(PresenceError::Unexpected)?;
    Ok(Session { device: parsed(device)?, instance: parsed(instance)?, left: duration(left)? })
}
